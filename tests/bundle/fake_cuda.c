/* A stand-in for libcuda that runs nothing: it writes each call with its arguments into a log, which a test reads, and fails where it is
   told to. Only what bundles call, with the names that cuda.h gives the calls. */

#include <cuda.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char fake_text[1 << 20];
static size_t fake_used;
static int fake_sizes[64], fake_count; /* bytes of the parameters of the kernel that is launched */
static char fake_failing[64];
static CUresult fake_result;

/* What the device is; tests write there by name. */
int fake_major = 9, fake_minor = 0, fake_multiprocessors = 132, fake_shared_bytes = 232448, fake_threads = 1024, fake_clusters = 4;
int fake_device = 0, fake_stream_device = 0, fake_capturing = 0;
unsigned long long fake_unknown = 1; /* an address that CUDA does not know */
unsigned long long fake_allocated = 0; /* what cuMemAlloc gave last */

const char *fake_log(void)
{
    return fake_text;
}

void fake_reset(void)
{
    fake_used = 0;
    fake_text[0] = 0;
    fake_failing[0] = 0;
    fake_count = 0;
}

void fake_parameters(int count, const int *sizes)
{
    fake_count = count;
    memcpy(fake_sizes, sizes, (size_t)count * sizeof *sizes);
}

void fake_fail(const char *function, int result)
{
    snprintf(fake_failing, sizeof fake_failing, "%s", function);
    fake_result = (CUresult)result;
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fake_used += (size_t)vsnprintf(fake_text + fake_used, sizeof fake_text - fake_used, format, values);
    va_end(values);
    if (fake_used >= sizeof fake_text)
        abort();
}

static void say_numbers(const char *name, const void *numbers, unsigned count, size_t size)
{
    uint64_t value;
    unsigned each;
    say(" %s=", name);
    for (each = 0; each < count; each++) {
        value = 0;
        memcpy(&value, (const char *)numbers + each * size, size);
        say("%s%llu", each ? "," : "", (unsigned long long)value);
    }
}

/* The log has a line for each call: its name, then name=value. */
static CUresult begun(const char *function)
{
    say("%s%s", fake_used ? "\n" : "", function);
    return strcmp(function, fake_failing) == 0 ? fake_result : CUDA_SUCCESS;
}

#define BEGIN(function)                      \
    CUresult result = begun(function);       \
    if (result != CUDA_SUCCESS)              \
        return result

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **text)
{
    *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_SOME";
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char **text)
{
    *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "some error";
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuInit(unsigned flags)
{
    BEGIN("cuInit");
    return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal)
{
    BEGIN("cuDeviceGet");
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    BEGIN("cuDevicePrimaryCtxRetain");
    *context = (CUcontext)(uintptr_t)(1000 + device);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device)
{
    BEGIN("cuDevicePrimaryCtxRelease");
    return device >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext context)
{
    BEGIN("cuCtxSetCurrent");
    return context != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult CUDAAPI cuCtxSynchronize(void)
{
    BEGIN("cuCtxSynchronize");
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device)
{
    BEGIN("cuCtxGetDevice");
    *device = fake_device;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int size, CUdevice device)
{
    BEGIN("cuDeviceGetName");
    snprintf(name, (size_t)size, device == 0 ? "Imaginary GPU" : "Second GPU");
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    BEGIN("cuDeviceGetAttribute");
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = fake_major; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = fake_minor; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = fake_multiprocessors; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = fake_shared_bytes; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: *value = fake_shared_bytes + 1024; break;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = fake_threads; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return device >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    BEGIN("cuThreadExchangeStreamCaptureMode");
    *mode = *mode == CU_STREAM_CAPTURE_MODE_RELAXED ? CU_STREAM_CAPTURE_MODE_GLOBAL : CU_STREAM_CAPTURE_MODE_RELAXED;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr *address, size_t size)
{
    BEGIN("cuMemAlloc");
    say(" size=%zu", size);
    *address = (CUdeviceptr)(uintptr_t)aligned_alloc(256, (size + 255) / 256 * 256);
    fake_allocated = *address;
    return *address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuMemFree(CUdeviceptr address)
{
    BEGIN("cuMemFree");
    free((void *)(uintptr_t)address);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemsetD8(CUdeviceptr address, unsigned char value, size_t size)
{
    BEGIN("cuMemsetD8");
    memset((void *)(uintptr_t)address, value, size);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t size)
{
    BEGIN("cuMemcpyHtoD");
    memcpy((void *)(uintptr_t)to, from, size);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyDtoH(void *to, CUdeviceptr from, size_t size)
{
    BEGIN("cuMemcpyDtoH");
    memcpy(to, (const void *)(uintptr_t)from, size);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    BEGIN("cuPointerGetAttribute");
    if (attribute != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL || address == 0 || address == fake_unknown)
        return CUDA_ERROR_INVALID_VALUE;
    *(int *)value = fake_device;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    BEGIN("cuStreamIsCapturing");
    *status = fake_capturing && stream != NULL ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetDevice(CUstream stream, CUdevice *device)
{
    BEGIN("cuStreamGetDevice");
    *device = stream != NULL ? fake_stream_device : -1;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options, void **values, unsigned count,
                                   CUlibraryOption *library_options, void **library_values, unsigned library_count)
{
    BEGIN("cuLibraryLoadData");
    if (memcmp(code, "\177ELF", 4) != 0 || (uintptr_t)code % 64 || options || values || count || library_options || library_values
        || library_count)
        return CUDA_ERROR_INVALID_IMAGE;
    *library = (CUlibrary)(uintptr_t)malloc(16);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    BEGIN("cuLibraryGetKernel");
    say(" name=%s", name);
    *kernel = (CUkernel)library;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary library)
{
    BEGIN("cuLibraryUnload");
    free((void *)library);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device)
{
    BEGIN("cuKernelSetAttribute");
    say(" attribute=%d value=%d device=%d", (int)attribute, value, (int)device);
    return kernel != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static void say_config(const CUlaunchConfig *config)
{
    unsigned each;
    say(" grid=%u,%u,%u block=%u,%u,%u shared=%u stream=%llu", config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
        config->blockDimY, config->blockDimZ, config->sharedMemBytes, (unsigned long long)(uintptr_t)config->hStream);
    for (each = 0; each < config->numAttrs; each++) {
        const CUlaunchAttribute *one = &config->attrs[each];
        if (one->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            say(" cluster=%u,%u,%u", one->value.clusterDim.x, one->value.clusterDim.y, one->value.clusterDim.z);
        else if (one->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            say(" programmatic=%d", one->value.programmaticStreamSerializationAllowed);
        else
            say(" attribute=%d", (int)one->id);
    }
}

CUresult CUDAAPI cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const CUlaunchConfig *config)
{
    BEGIN("cuOccupancyMaxActiveClusters");
    say_config(config);
    *clusters = fake_clusters;
    return function != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* What it was made of stands in the map: the address first. */
CUresult CUDAAPI cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                        const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
                                        const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                        CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    const uint64_t place = (uint64_t)(uintptr_t)address;
    BEGIN("cuTensorMapEncodeTiled");
    say(" type=%d rank=%u address=%llu", (int)type, rank, (unsigned long long)place);
    say_numbers("dims", dims, rank, sizeof *dims);
    say_numbers("strides", strides, rank - 1, sizeof *strides);
    say_numbers("box", box, rank, sizeof *box);
    say_numbers("steps", steps, rank, sizeof *steps);
    say(" interleave=%d swizzle=%d promotion=%d fill=%d", (int)interleave, (int)swizzle, (int)promotion, (int)fill);
    if ((uintptr_t)map % 64)
        return CUDA_ERROR_INVALID_VALUE;
    memset(map, 'm', sizeof *map);
    memcpy(map, &place, sizeof place);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
    int each, byte;
    BEGIN("cuLaunchKernelEx");
    say_config(config);
    for (each = 0; each < fake_count; each++) {
        say(" parameter%d=", each);
        for (byte = 0; byte < fake_sizes[each]; byte++)
            say("%02x", ((const unsigned char *)parameters[each])[byte]);
    }
    return function != NULL && extra == NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

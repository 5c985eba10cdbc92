/* What every bundle of pipec shares: statuses and errors. CUDA driver API only; C11 or C++17. */

#ifndef PIPEC_LAUNCH_H
#define PIPEC_LAUNCH_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#if CUDA_VERSION < 12080
#error "bundles of pipec need cuda.h of CUDA 12.8 or later"
#endif

#define PIPEC_MESSAGE_BYTES 768

typedef enum {
    PIPEC_SUCCESS = 0,
    PIPEC_BAD_ARGUMENT = 1,  /* an argument that the kernel cannot be called with; nothing ran */
    PIPEC_NO_DEVICE = 2,     /* no context is current, the device is none that the bundle has code for, or the stream is another one's */
    PIPEC_CANNOT_LAUNCH = 3, /* the device cannot hold the kernel; nothing ran */
    PIPEC_DRIVER_FAILED = 4, /* a call of the driver failed: `driver` has its result */
    PIPEC_NO_MEMORY = 5      /* of the host */
} pipec_status;

/* Why a call did not succeed: kernel and parameter by name, the problem in words. */
typedef struct {
    pipec_status status;
    CUresult driver;
    char message[PIPEC_MESSAGE_BYTES];
} pipec_error;

#endif

/* Opens a bundle and launches its kernels, as the tables say that the generated file defines: included there, once.

   The checks are those of the Python runtime (runtime/arguments.py, runtime/parameters.py), in the same order and words; numbers that
   both need are macros, written by the generator from what Python uses. */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- tables ----------------------------------------------------------------------------------------------------------- */

/* Expressions over names, operator first: numbers, and conditions, which are 0 or 1. */
enum {
    PIPEC_NUMBER, /* value */
    PIPEC_NAME,   /* index */
    PIPEC_ADD,
    PIPEC_SUBTRACT,
    PIPEC_MULTIPLY,
    PIPEC_FLOOR_DIVIDE,
    PIPEC_REMAINDER,
    PIPEC_MINIMUM,
    PIPEC_MAXIMUM,
    PIPEC_CEILDIV,
    PIPEC_PRODUCT_WITHIN, /* least, most; a product that a kernel computes in a type of that range */
    PIPEC_CHOOSE,         /* condition, then, else */
    PIPEC_NOT_NEGATIVE,
    PIPEC_ZERO,
    PIPEC_NOT_ZERO,
    PIPEC_AND, /* number of conditions */
    PIPEC_OR   /* number of conditions */
};

enum { PIPEC_TENSOR_MAP, PIPEC_POINTER, PIPEC_STRIDE, PIPEC_DIMENSION, PIPEC_SCALAR };

typedef struct {
    const char *name;
    const char *dtype;
    int rank;
    int item_bytes;  /* of an element of the array */
    int packed_bits; /* of an element that shares its byte with others; 0: none does */
    int written;
    int through_tensor_map;
    int through_pointer;
    int unpacked; /* a tensor map unpacks its elements */
    unsigned stride_axes;
    const int64_t *shape; /* sizes; -1 - n: dimension n */
} pipec_tensor_row;

typedef struct {
    CUtensorMapDataType type;
    int bits; /* of an element of the map; 0: as in the array */
    int rank;
    uint32_t box[PIPEC_MOST_RANK]; /* innermost first */
    CUtensorMapSwizzle swizzle;
    uint64_t least_row;
    uint64_t least_stride;
} pipec_map_row;

typedef struct {
    int kind;
    int subject; /* tensor, dimension or scalar */
    int detail;  /* axis, or number of the map */
} pipec_parameter_row;

typedef struct {
    const int64_t *program;
    const char *words;
    int name_count;
    const int *names;
} pipec_condition_row;

/* One form of a kernel: its machine code and all of its launch. */
typedef struct {
    const unsigned char *code;
    int threads;
    int shared_bytes;
    int cluster[3];
    int programmatic;
    const pipec_tensor_row *tensors;
    const pipec_map_row *maps;
    int parameter_count;
    const pipec_parameter_row *parameters;
    const int64_t *grid[3];
    int condition_count;
    const pipec_condition_row *conditions;
} pipec_variant_row;

/* The forms of a kernel for one target; `choices` has rows of sizes, one for each dimension, and the variant that suits them. */
typedef struct {
    const char *arch;
    int major;
    int minor;
    int first_loaded; /* where the variants stand among all of the bundle */
    int variant_count;
    const pipec_variant_row *variants;
    int choice_count;
    const int64_t *choices;
} pipec_form_row;

typedef struct {
    const char *name;
    int tensor_count;
    int scalar_count;
    int integer_count;   /* scalars that expressions may name: the first names */
    int dimension_count; /* the names behind them */
    const char *const *names;
    int form_count;
    const pipec_form_row *forms;
} pipec_kernel_row;

/* --- what a bundle holds when it is open ------------------------------------------------------------------------------ */

typedef struct {
    CUlibrary library;
    CUkernel kernel;
    int clusters; /* that fit the device at the same time */
} pipec_loaded;

struct PIPEC_BUNDLE {
    CUdevice device;
    char device_name[128];
    int major;
    int minor;
    int multiprocessors;
    int shared_bytes;
    int shared_of_all;   /* of a multiprocessor */
    int shared_reserved; /* that each CTA takes of it beside its own */
    int threads;
    CUdeviceptr stand_in; /* for tensors without elements */
    pipec_loaded loaded[PIPEC_VARIANTS];
};

#if defined(__GNUC__)
#define PIPEC_FORMAT(at, values) __attribute__((format(printf, at, values)))
#else
#define PIPEC_FORMAT(at, values)
#endif

#ifdef __cplusplus
#define PIPEC_CODE alignas(64) static const unsigned char
#else
#define PIPEC_CODE _Alignas(64) static const unsigned char
#endif

/* --- errors ------------------------------------------------------------------------------------------------------------ */

PIPEC_FORMAT(4, 5)
static pipec_status pipec_fail(pipec_error *error, pipec_status status, CUresult driver, const char *format, ...)
{
    va_list values;
    if (error != NULL) {
        error->status = status;
        error->driver = driver;
        va_start(values, format);
        (void)vsnprintf(error->message, sizeof error->message, format, values);
        va_end(values);
    }
    return status;
}

static pipec_status pipec_driver_failed(pipec_error *error, const char *kernel, const char *doing, const char *function, CUresult result)
{
    const char *name = NULL;
    const char *text = NULL;
    (void)cuGetErrorName(result, &name);
    (void)cuGetErrorString(result, &text);
    return pipec_fail(error, PIPEC_DRIVER_FAILED, result, "kernel `%s`: %s failed: %s returned %s (%s)", kernel, doing, function,
                      name != NULL ? name : "an unknown result", text != NULL ? text : "no text");
}

/* Words for a message, cut off where they are too long. */
typedef struct {
    char text[384];
    size_t used;
} pipec_words;

PIPEC_FORMAT(2, 3)
static void pipec_say(pipec_words *words, const char *format, ...)
{
    va_list values;
    int added;
    if (words->used + 1 >= sizeof words->text)
        return;
    va_start(values, format);
    added = vsnprintf(words->text + words->used, sizeof words->text - words->used, format, values);
    va_end(values);
    if (added > 0)
        words->used += (size_t)added;
}

static void pipec_say_shape(pipec_words *words, const int64_t *shape, int rank)
{
    int axis;
    for (axis = 0; axis < rank; axis++)
        pipec_say(words, "%s%lld", axis ? ", " : "(", (long long)shape[axis]);
    pipec_say(words, rank == 1 ? ",)" : ")");
}

/* --- expressions ------------------------------------------------------------------------------------------------------- */

enum { PIPEC_FINE, PIPEC_DIVIDES_BY_ZERO, PIPEC_TOO_WIDE, PIPEC_BEYOND };

/* `trouble`: the value is none, since a divisor is zero, 64 bits do not hold it, or a product would wrap in the kernel. */
typedef struct {
    int64_t value;
    int trouble;
} pipec_value;

static pipec_value pipec_number(int64_t value)
{
    pipec_value made;
    made.value = value;
    made.trouble = PIPEC_FINE;
    return made;
}

static pipec_value pipec_no_number(int trouble)
{
    pipec_value made;
    made.value = 0;
    made.trouble = trouble;
    return made;
}

static pipec_value pipec_sum(int64_t one, int64_t other)
{
    if (other > 0 ? one > INT64_MAX - other : one < INT64_MIN - other)
        return pipec_no_number(PIPEC_TOO_WIDE);
    return pipec_number(one + other);
}

static pipec_value pipec_difference(int64_t one, int64_t other)
{
    if (other > 0 ? one < INT64_MIN + other : one > INT64_MAX + other)
        return pipec_no_number(PIPEC_TOO_WIDE);
    return pipec_number(one - other);
}

static pipec_value pipec_product(int64_t one, int64_t other)
{
    int wide;
    if (one == 0 || other == 0)
        return pipec_number(0);
    if (one == INT64_MIN || other == INT64_MIN)
        wide = one != 1 && other != 1;
    else if ((one > 0) == (other > 0))
        wide = (one > 0 ? one : -one) > INT64_MAX / (other > 0 ? other : -other);
    else
        wide = one > 0 ? other < INT64_MIN / one : one < INT64_MIN / other;
    return wide ? pipec_no_number(PIPEC_TOO_WIDE) : pipec_number(one * other);
}

/* Rounded down, as Python divides. */
static pipec_value pipec_quotient(int64_t one, int64_t other, int up)
{
    int64_t quotient, rest;
    if (other == 0)
        return pipec_no_number(PIPEC_DIVIDES_BY_ZERO);
    if (one == INT64_MIN && other == -1)
        return pipec_no_number(PIPEC_TOO_WIDE);
    quotient = one / other;
    rest = one % other;
    if (rest != 0 && ((rest < 0) != (other < 0)) != (up != 0))
        quotient += up ? 1 : -1;
    return pipec_number(quotient);
}

static pipec_value pipec_remainder(int64_t one, int64_t other)
{
    int64_t rest;
    if (other == 0)
        return pipec_no_number(PIPEC_DIVIDES_BY_ZERO);
    if (other == -1)
        return pipec_number(0);
    rest = one % other;
    return pipec_number(rest != 0 && (rest < 0) != (other < 0) ? rest + other : rest);
}

static pipec_value pipec_of_two(int64_t operation, int64_t one, int64_t other)
{
    switch (operation) {
    case PIPEC_ADD:
        return pipec_sum(one, other);
    case PIPEC_SUBTRACT:
        return pipec_difference(one, other);
    case PIPEC_MULTIPLY:
        return pipec_product(one, other);
    case PIPEC_FLOOR_DIVIDE:
        return pipec_quotient(one, other, 0);
    case PIPEC_CEILDIV:
        return pipec_quotient(one, other, 1);
    case PIPEC_REMAINDER:
        return pipec_remainder(one, other);
    case PIPEC_MINIMUM:
        return pipec_number(one < other ? one : other);
    default:
        return pipec_number(one > other ? one : other);
    }
}

/* Whether the comparison holds; `chosen`: it decides between two values, and what has no value makes that none, too. */
static pipec_value pipec_compared(int64_t relation, pipec_value of, int chosen)
{
    if (of.trouble == PIPEC_BEYOND && !chosen)
        return pipec_number(0);
    if (of.trouble != PIPEC_FINE)
        return of;
    if (relation == PIPEC_NOT_NEGATIVE)
        return pipec_number(of.value >= 0);
    return pipec_number((of.value == 0) == (relation == PIPEC_ZERO));
}

/* The value of the expression at `*at`, which moves behind it. Written by the generator: as deep as it makes them. */
static pipec_value pipec_evaluate(const int64_t **at, const int64_t *names, int chosen)
{
    int64_t operation = *(*at)++;
    int64_t count, least, most;
    pipec_value one, other, third;
    switch (operation) {
    case PIPEC_NUMBER:
        return pipec_number(*(*at)++);
    case PIPEC_NAME:
        return pipec_number(names[*(*at)++]);
    case PIPEC_NOT_NEGATIVE:
    case PIPEC_ZERO:
    case PIPEC_NOT_ZERO:
        return pipec_compared(operation, pipec_evaluate(at, names, chosen), chosen);
    case PIPEC_CHOOSE:
        one = pipec_evaluate(at, names, 1);
        other = pipec_evaluate(at, names, chosen);
        third = pipec_evaluate(at, names, chosen);
        return one.trouble != PIPEC_FINE ? one : one.value ? other : third;
    case PIPEC_AND:
    case PIPEC_OR:
        /* The first part that decides, as Python looks at them. */
        one = pipec_number(operation == PIPEC_AND);
        for (count = *(*at)++; count > 0; count--) {
            other = pipec_evaluate(at, names, chosen);
            if (one.trouble == PIPEC_FINE && one.value == (operation == PIPEC_AND))
                one = other;
        }
        return one;
    case PIPEC_PRODUCT_WITHIN:
        least = *(*at)++;
        most = *(*at)++;
        one = pipec_evaluate(at, names, chosen);
        other = pipec_evaluate(at, names, chosen);
        if (one.trouble != PIPEC_FINE || other.trouble != PIPEC_FINE)
            return one.trouble != PIPEC_FINE ? one : other;
        one = pipec_product(one.value, other.value);
        return one.trouble != PIPEC_FINE || one.value < least || one.value > most ? pipec_no_number(PIPEC_BEYOND) : one;
    default:
        one = pipec_evaluate(at, names, chosen);
        other = pipec_evaluate(at, names, chosen);
        if (one.trouble != PIPEC_FINE || other.trouble != PIPEC_FINE)
            return one.trouble != PIPEC_FINE ? one : other;
        return pipec_of_two(operation, one.value, other.value);
    }
}

/* --- arguments ---------------------------------------------------------------------------------------------------------- */

/* A tensor as the caller has it: strides in elements of the array, outermost dimension first. */
typedef struct {
    CUdeviceptr data;
    const int64_t *shape;
    const int64_t *strides;
} pipec_array;

/* A scalar as the kernel reads it, and its value if it is a whole number that expressions may name. */
typedef struct {
    const void *data;
    int64_t value;
} pipec_scalar;

/* A tensor under check: strides in bytes, those of dimensions of size 0 or 1 made regular. */
typedef struct {
    const pipec_tensor_row *row;
    uint64_t address;
    int64_t shape[PIPEC_MOST_RANK];
    int64_t strides[PIPEC_MOST_RANK];
    int64_t extent; /* bytes from the first to past the last element */
    int empty;
} pipec_view;

#define PIPEC_REFUSE(view, ...) pipec_refuse(error, kernel, (view)->row->name, __VA_ARGS__)

PIPEC_FORMAT(4, 5)
static pipec_status pipec_refuse(pipec_error *error, const pipec_kernel_row *kernel, const char *parameter, const char *format, ...)
{
    char problem[PIPEC_MESSAGE_BYTES];
    va_list values;
    va_start(values, format);
    (void)vsnprintf(problem, sizeof problem, format, values);
    va_end(values);
    return pipec_fail(error, PIPEC_BAD_ARGUMENT, CUDA_SUCCESS, "kernel `%s`, parameter `%s`: %s", kernel->name, parameter, problem);
}

static int64_t pipec_rounded_up(int64_t value, int64_t step)
{
    return (value + step - 1) / step * step;
}

static pipec_status pipec_check_sizes(const pipec_kernel_row *kernel, const pipec_view *view, pipec_error *error)
{
    int axis;
    for (axis = 0; axis < view->row->rank; axis++) {
        if (view->shape[axis] < 0)
            return PIPEC_REFUSE(view, "dimension %d has %lld elements", axis, (long long)view->shape[axis]);
        if (view->shape[axis] > PIPEC_MAXIMUM_DIMENSION)
            return PIPEC_REFUSE(view, "dimension %d has %lld elements; a kernel takes at most %lld", axis,
                                (long long)view->shape[axis], (long long)PIPEC_MAXIMUM_DIMENSION);
    }
    return PIPEC_SUCCESS;
}

/* Strides in bytes, and those that a dimension of size 0 or 1 should have, whatever stands there. */
static pipec_status pipec_regular(const pipec_kernel_row *kernel, pipec_view *view, const int64_t *strides, pipec_error *error)
{
    const pipec_tensor_row *row = view->row;
    pipec_value wanted = pipec_number(row->item_bytes), stride;
    int axis;
    for (axis = row->rank - 1; axis >= 0; axis--) {
        stride = view->empty || view->shape[axis] == 1 ? wanted : pipec_product(strides[axis], row->item_bytes);
        wanted = stride.trouble == PIPEC_FINE ? pipec_product(stride.value, view->shape[axis]) : stride;
        if (stride.trouble != PIPEC_FINE || wanted.trouble != PIPEC_FINE || wanted.value > INT64_MAX - PIPEC_TENSOR_MAP_ALIGNMENT)
            return PIPEC_REFUSE(view, "dimension %d lies outside of any memory", axis);
        view->strides[axis] = stride.value;
        if (row->through_tensor_map && !view->empty && wanted.value > 0)
            wanted.value = pipec_rounded_up(wanted.value, PIPEC_TENSOR_MAP_ALIGNMENT);
    }
    return PIPEC_SUCCESS;
}

static pipec_status pipec_check_whole_elements(const pipec_kernel_row *kernel, const pipec_view *view, pipec_error *error)
{
    const pipec_tensor_row *row = view->row;
    int64_t size, elements;
    int axis;
    if (!row->packed_bits)
        return PIPEC_SUCCESS;
    size = view->shape[row->rank - 1];
    if (size * 8 % row->packed_bits)
        return PIPEC_REFUSE(view, "rows of %lld bytes are no whole number of %s elements of %d bits", (long long)size, row->dtype,
                            row->packed_bits);
    if (!row->unpacked)
        return PIPEC_SUCCESS;
    elements = size * 8 / row->packed_bits;
    if (elements % PIPEC_UNPACKED_ELEMENTS)
        return PIPEC_REFUSE(view, "rows of %lld %s elements: TMA unpacks whole pieces of %d", (long long)elements, row->dtype,
                            PIPEC_UNPACKED_ELEMENTS);
    for (axis = 0; axis + 1 < row->rank; axis++)
        if (view->strides[axis] % PIPEC_UNPACKING_ALIGNMENT)
            return PIPEC_REFUSE(view, "stride %lld bytes of dimension %d is no multiple of %d, as TMA needs to unpack %s",
                                (long long)view->strides[axis], axis, PIPEC_UNPACKING_ALIGNMENT, row->dtype);
    if (view->address % PIPEC_UNPACKING_ALIGNMENT)
        return PIPEC_REFUSE(view, "the first element lies %d bytes past a multiple of %d",
                            (int)(view->address % PIPEC_UNPACKING_ALIGNMENT), PIPEC_UNPACKING_ALIGNMENT);
    return PIPEC_SUCCESS;
}

static pipec_status pipec_check_strides(const pipec_kernel_row *kernel, const pipec_view *view, pipec_error *error)
{
    const pipec_tensor_row *row = view->row;
    int axis, last = row->rank - 1;
    for (axis = 0; axis < row->rank; axis++)
        if (view->strides[axis] < 0)
            return PIPEC_REFUSE(view, "dimension %d runs backwards (stride %lld bytes)", axis, (long long)view->strides[axis]);
    if (last >= 0 && !((row->stride_axes >> last & 1u) && !row->through_tensor_map) && view->strides[last] != row->item_bytes)
        return PIPEC_REFUSE(view, "the innermost dimension must be contiguous: its stride is %lld bytes, the element has %d",
                            (long long)view->strides[last], row->item_bytes);
    return PIPEC_SUCCESS;
}

static pipec_status pipec_check_base(const pipec_kernel_row *kernel, const pipec_view *view, pipec_error *error)
{
    const pipec_tensor_row *row = view->row;
    int alignment = row->through_tensor_map ? PIPEC_TENSOR_MAP_ALIGNMENT : row->item_bytes;
    int excess = (int)(view->address % (uint64_t)alignment);
    if (excess)
        return PIPEC_REFUSE(view, "the first element lies %d bytes past a multiple of %d; %s %d-byte alignment", excess, alignment,
                            row->through_tensor_map ? "a tensor map (TMA) needs" : "its element type needs", alignment);
    return PIPEC_SUCCESS;
}

static pipec_status pipec_check_outer_strides(const pipec_kernel_row *kernel, const pipec_view *view, pipec_error *error)
{
    const pipec_tensor_row *row = view->row;
    pipec_value contiguous[PIPEC_MOST_RANK];
    int64_t stride;
    int axis;
    for (axis = row->rank - 1; axis >= 0; axis--) {
        contiguous[axis] = axis == row->rank - 1 ? pipec_number(row->item_bytes) : contiguous[axis + 1];
        if (axis + 1 < row->rank && contiguous[axis].trouble == PIPEC_FINE)
            contiguous[axis] = pipec_product(contiguous[axis].value, view->shape[axis + 1]);
    }
    for (axis = 0; axis + 1 < row->rank; axis++) {
        stride = view->strides[axis];
        if (row->through_tensor_map && stride % PIPEC_TENSOR_MAP_ALIGNMENT)
            return PIPEC_REFUSE(view, "stride %lld bytes of dimension %d is no multiple of %d, which a tensor map (TMA) needs",
                                (long long)stride, axis, PIPEC_TENSOR_MAP_ALIGNMENT);
        if (row->through_tensor_map && stride > PIPEC_MAXIMUM_STRIDE)
            return PIPEC_REFUSE(view, "stride %lld bytes of dimension %d exceeds the %lld of a tensor map", (long long)stride, axis,
                                (long long)PIPEC_MAXIMUM_STRIDE);
        if (!row->through_pointer)
            continue;
        if (!(row->stride_axes >> axis & 1u) && view->shape[axis] > 1
            && (contiguous[axis].trouble != PIPEC_FINE || stride != contiguous[axis].value))
            return PIPEC_REFUSE(view, "the array must have no gaps: dimension %d has stride %lld bytes, expected %lld", axis,
                                (long long)stride, (long long)contiguous[axis].value);
        if (stride % row->item_bytes)
            return PIPEC_REFUSE(view, "stride %lld bytes of dimension %d is no multiple of the element's %d", (long long)stride, axis,
                                row->item_bytes);
    }
    return PIPEC_SUCCESS;
}

static pipec_status pipec_check_clipping(const pipec_kernel_row *kernel, const pipec_view *view, pipec_error *error)
{
    const pipec_tensor_row *row = view->row;
    int64_t inner;
    if (!(row->written && row->through_tensor_map && row->rank))
        return PIPEC_SUCCESS;
    inner = view->shape[row->rank - 1] * row->item_bytes;
    if (inner % PIPEC_TENSOR_MAP_ALIGNMENT)
        return PIPEC_REFUSE(view,
                            "its rows have %lld element%s (%lld bytes), but a TMA store writes whole 16-byte pieces: it would write %d "
                            "bytes past the end of a row",
                            (long long)view->shape[row->rank - 1], view->shape[row->rank - 1] == 1 ? "" : "s", (long long)inner,
                            PIPEC_TENSOR_MAP_ALIGNMENT - (int)(inner % PIPEC_TENSOR_MAP_ALIGNMENT));
    return PIPEC_SUCCESS;
}

/* Bytes from the first to past the last element. */
static pipec_status pipec_measure(const pipec_kernel_row *kernel, pipec_view *view, pipec_error *error)
{
    pipec_value extent = pipec_number(view->row->item_bytes), part;
    int axis;
    for (axis = 0; axis < view->row->rank; axis++) {
        part = pipec_product(view->shape[axis] - 1, view->strides[axis]);
        extent = part.trouble == PIPEC_FINE && extent.trouble == PIPEC_FINE ? pipec_sum(extent.value, part.value) : part;
    }
    if (extent.trouble != PIPEC_FINE || (uint64_t)extent.value > UINT64_MAX - view->address)
        return PIPEC_REFUSE(view, "it lies outside of any memory");
    view->extent = extent.value;
    return PIPEC_SUCCESS;
}

static pipec_status pipec_check_self_overlap(const pipec_kernel_row *kernel, const pipec_view *view, pipec_error *error)
{
    int64_t reach = view->row->item_bytes, stride, size;
    int seen[PIPEC_MOST_RANK] = {0};
    int count, axis, least;
    if (!view->row->written)
        return PIPEC_SUCCESS;
    for (count = 0; count < view->row->rank; count++) {
        least = -1;
        for (axis = 0; axis < view->row->rank; axis++)
            if (!seen[axis] && view->shape[axis] > 1
                && (least < 0 || view->strides[axis] < view->strides[least]
                    || (view->strides[axis] == view->strides[least] && view->shape[axis] < view->shape[least])))
                least = axis;
        if (least < 0)
            break;
        seen[least] = 1;
        stride = view->strides[least];
        size = view->shape[least];
        if (stride < reach)
            return PIPEC_REFUSE(
                view, "the kernel writes it, but its elements overlap: stride %lld bytes is less than the %lld bytes it steps over",
                (long long)stride, (long long)reach);
        reach += (size - 1) * stride; /* at most the extent, which fits */
    }
    return PIPEC_SUCCESS;
}

static pipec_status pipec_view_of(const pipec_kernel_row *kernel, const pipec_tensor_row *row, const pipec_array *array,
                                  pipec_view *view, pipec_error *error)
{
    pipec_status status;
    int axis;
    memset(view, 0, sizeof *view);
    view->row = row;
    view->address = (uint64_t)array->data;
    for (axis = 0; axis < row->rank; axis++) {
        view->shape[axis] = array->shape[axis];
        view->empty |= array->shape[axis] == 0;
    }
    status = pipec_check_sizes(kernel, view, error);
    if (status == PIPEC_SUCCESS)
        status = pipec_regular(kernel, view, array->strides, error);
    if (status != PIPEC_SUCCESS || view->empty)
        return status;
    status = pipec_check_whole_elements(kernel, view, error);
    if (status == PIPEC_SUCCESS)
        status = pipec_check_strides(kernel, view, error);
    if (status == PIPEC_SUCCESS)
        status = pipec_check_base(kernel, view, error);
    if (status == PIPEC_SUCCESS)
        status = pipec_check_outer_strides(kernel, view, error);
    if (status == PIPEC_SUCCESS)
        status = pipec_check_clipping(kernel, view, error);
    if (status == PIPEC_SUCCESS)
        status = pipec_measure(kernel, view, error);
    return status == PIPEC_SUCCESS ? pipec_check_self_overlap(kernel, view, error) : status;
}

/* --- all tensors together ----------------------------------------------------------------------------------------------- */

/* In elements: packed ones are passed as bytes. */
static int64_t pipec_elements(const pipec_tensor_row *row, const int64_t *shape, int axis)
{
    return row->packed_bits && axis == row->rank - 1 ? shape[axis] * 8 / row->packed_bits : shape[axis];
}

static pipec_status pipec_bind_dimensions(const pipec_kernel_row *kernel, const pipec_view *views, int64_t *dimensions,
                                          pipec_error *error)
{
    int owners[PIPEC_MOST_NAMES], axes[PIPEC_MOST_NAMES];
    int tensor, axis, number;
    int64_t declared, size;
    pipec_words words = {"", 0};
    for (number = 0; number < kernel->dimension_count; number++)
        owners[number] = axes[number] = -1;
    for (tensor = 0; tensor < kernel->tensor_count; tensor++)
        for (axis = 0; axis < views[tensor].row->rank; axis++) {
            declared = views[tensor].row->shape[axis];
            size = pipec_elements(views[tensor].row, views[tensor].shape, axis);
            if (declared >= 0 && declared != size) {
                pipec_say_shape(&words, views[tensor].shape, views[tensor].row->rank);
                return PIPEC_REFUSE(&views[tensor], "dimension %d must be %lld, got %lld: shape %s", axis, (long long)declared,
                                    (long long)size, words.text);
            }
            if (declared >= 0)
                continue;
            number = (int)(-1 - declared);
            if (owners[number] < 0) {
                owners[number] = tensor;
                axes[number] = axis;
                dimensions[number] = size;
            } else if (dimensions[number] != size) {
                return PIPEC_REFUSE(&views[tensor], "dimension `%s` is %lld here (axis %d) but %lld in `%s` (axis %d)",
                                    kernel->names[kernel->integer_count + number], (long long)size, axis,
                                    (long long)dimensions[number], views[owners[number]].row->name, axes[number]);
            }
        }
    return PIPEC_SUCCESS;
}

/* A part of the distance between two bytes: `stride` times a number from `least` to `most`. */
typedef struct {
    int64_t stride, least, most;
} pipec_span;

/* Whether `distance` is a sum of one multiple from each span, the widest stride first; 1 as well when that takes too long to tell. */
static int pipec_reaches(const pipec_span *spans, int count, int64_t distance, int *work)
{
    int64_t lowest = 0, highest = 0, first, last, times;
    int each;
    if (count == 0)
        return distance == 0;
    if (--*work < 0)
        return 1;
    for (each = 1; each < count; each++) {
        lowest += spans[each].stride * spans[each].least;
        highest += spans[each].stride * spans[each].most;
    }
    first = pipec_quotient(distance - highest, spans[0].stride, 1).value;
    last = pipec_quotient(distance - lowest, spans[0].stride, 0).value;
    first = first > spans[0].least ? first : spans[0].least;
    last = last < spans[0].most ? last : spans[0].most;
    for (times = first; times <= last; times++)
        if (pipec_reaches(spans + 1, count - 1, distance - spans[0].stride * times, work))
            return 1;
    return 0;
}

static void pipec_add_spans(pipec_span *spans, int *count, const pipec_view *view, int sign)
{
    int axis, at;
    for (axis = 0; axis < view->row->rank; axis++) {
        if (view->shape[axis] < 2 || view->strides[axis] == 0)
            continue;
        for (at = (*count)++; at > 0 && spans[at - 1].stride < view->strides[axis]; at--)
            spans[at] = spans[at - 1];
        spans[at].stride = view->strides[axis];
        spans[at].least = sign < 0 ? 1 - view->shape[axis] : 0;
        spans[at].most = sign < 0 ? 0 : view->shape[axis] - 1;
    }
}

/* Whether an element of one lies where an element of the other does. Extents that meet are shorter than half of the address space each,
   so that their sums do not overflow. */
static int pipec_share_memory(const pipec_view *one, const pipec_view *other)
{
    pipec_span spans[2 * PIPEC_MOST_RANK + 1];
    int count = 0, work = 100000;
    if (one->empty || other->empty)
        return 0;
    if (one->address + (uint64_t)one->extent <= other->address || other->address + (uint64_t)other->extent <= one->address)
        return 0;
    if (one->extent > INT64_MAX / 4 || other->extent > INT64_MAX / 4)
        return 1;
    pipec_add_spans(spans, &count, one, 1);
    pipec_add_spans(spans, &count, other, -1);
    spans[count].stride = 1;
    spans[count].least = 1 - other->row->item_bytes;
    spans[count].most = one->row->item_bytes - 1;
    return pipec_reaches(spans, count + 1, (int64_t)(other->address - one->address), &work);
}

static pipec_status pipec_check_overlap(const pipec_kernel_row *kernel, const pipec_view *views, pipec_error *error)
{
    int one, other;
    for (one = 0; one < kernel->tensor_count; one++)
        for (other = 0; other < kernel->tensor_count && views[one].row->written; other++)
            if (other != one && pipec_share_memory(&views[one], &views[other]))
                return PIPEC_REFUSE(&views[one], "the kernel writes it, but it shares memory with `%s` (addresses 0x%llx and 0x%llx)",
                                    views[other].row->name, (unsigned long long)views[one].address,
                                    (unsigned long long)views[other].address);
    return PIPEC_SUCCESS;
}

/* --- which form ---------------------------------------------------------------------------------------------------------- */

/* The number of the bucket of a size: of each power of two up to 16, then of four to a doubling. */
static int pipec_bucket(int64_t size)
{
    int bits = 0;
    int64_t rest;
    if (size <= 1)
        return (int)size;
    for (rest = size - 1; rest > 0; rest >>= 1)
        bits++;
    if (size <= 16)
        return 1 + bits;
    return 1 + 4 + 4 * (bits - 5) + (int)(((size - 1) >> (bits - 3)) & 3) + 1;
}

/* The variant of the row that is nearest, the first of several. */
static int pipec_choose(const pipec_kernel_row *kernel, const pipec_form_row *form, const int64_t *dimensions)
{
    int row, number, distance, apart, nearest = -1, variant = 0;
    const int64_t *sizes;
    for (row = 0; row < form->choice_count; row++) {
        sizes = form->choices + (size_t)row * (size_t)(kernel->dimension_count + 1);
        distance = 0;
        for (number = 0; number < kernel->dimension_count; number++) {
            apart = pipec_bucket(sizes[number]) - pipec_bucket(dimensions[number]);
            distance += 2 * (apart < 0 ? -apart : apart) + (sizes[number] != dimensions[number]);
        }
        if (nearest < 0 || distance < nearest) {
            nearest = distance;
            variant = (int)sizes[kernel->dimension_count];
        }
    }
    return variant;
}

/* The dimensions as the arguments have them, unchecked: the forms of a kernel have the same arguments. */
static void pipec_look_at_dimensions(const pipec_kernel_row *kernel, const pipec_tensor_row *rows, const pipec_array *arrays,
                                     int64_t *dimensions)
{
    int tensor, axis;
    for (axis = 0; axis < kernel->dimension_count; axis++)
        dimensions[axis] = 0;
    for (tensor = kernel->tensor_count - 1; tensor >= 0; tensor--)
        for (axis = rows[tensor].rank - 1; axis >= 0; axis--)
            if (rows[tensor].shape[axis] < 0 && arrays[tensor].shape[axis] >= 0
                && arrays[tensor].shape[axis] <= PIPEC_MAXIMUM_DIMENSION)
                dimensions[-1 - rows[tensor].shape[axis]] = pipec_elements(&rows[tensor], arrays[tensor].shape, axis);
}

/* --- the grid ------------------------------------------------------------------------------------------------------------ */

static void pipec_say_names(pipec_words *words, const pipec_kernel_row *kernel, const int64_t *names, const int *which, int count)
{
    int each;
    for (each = 0; each < count; each++)
        pipec_say(words, "%s%s = %lld", each ? ", " : "", kernel->names[which ? which[each] : each],
                  (long long)names[which ? which[each] : each]);
}

static pipec_status pipec_grid(const pipec_kernel_row *kernel, const pipec_variant_row *variant, int64_t *names, int64_t *grid,
                               pipec_error *error)
{
    static const int64_t most[3] = PIPEC_MAXIMUM_GRID;
    const int given = kernel->integer_count + kernel->dimension_count;
    pipec_words words = {"", 0};
    pipec_value found;
    const int64_t *at;
    int axis;
    pipec_say_names(&words, kernel, names, NULL, given);
    for (axis = 0; axis < 3; axis++) {
        at = variant->grid[axis];
        found = pipec_evaluate(&at, names, 0);
        if (found.trouble == PIPEC_DIVIDES_BY_ZERO)
            return pipec_refuse(error, kernel, "grid", "the extent along %c divides by zero (%s)", "xyz"[axis], words.text);
        if (found.trouble != PIPEC_FINE)
            return pipec_refuse(error, kernel, "grid", "the extent along %c is beyond 64 bits (%s)", "xyz"[axis], words.text);
        if (found.value < 0 || found.value > most[axis])
            return pipec_refuse(error, kernel, "grid", "the extent along %c is %lld, outside 0 to %lld (%s)", "xyz"[axis],
                                (long long)found.value, (long long)most[axis], words.text);
        if (found.value % variant->cluster[axis])
            return pipec_refuse(error, kernel, "grid", "the extent along %c is %lld, no multiple of the cluster's %d (%s)",
                                "xyz"[axis], (long long)found.value, variant->cluster[axis], words.text);
        grid[axis] = found.value;
        names[given + 1 + axis] = found.value;
    }
    return PIPEC_SUCCESS;
}

static pipec_status pipec_check_conditions(const pipec_kernel_row *kernel, const pipec_variant_row *variant, const int64_t *names,
                                           pipec_error *error)
{
    const pipec_condition_row *row;
    const int64_t *at;
    pipec_value met;
    int each;
    for (each = 0; each < variant->condition_count; each++) {
        pipec_words words = {"", 0};
        row = &variant->conditions[each];
        at = row->program;
        met = pipec_evaluate(&at, names, 0);
        if (met.trouble == PIPEC_FINE && met.value)
            continue;
        pipec_say_names(&words, kernel, names, row->names, row->name_count);
        return pipec_refuse(error, kernel, row->name_count ? kernel->names[row->names[0]] : "grid", "the kernel needs %s (%s)",
                            row->words, words.text);
    }
    return PIPEC_SUCCESS;
}

/* --- the device ---------------------------------------------------------------------------------------------------------- */

static pipec_status pipec_check_limits(const struct PIPEC_BUNDLE *bundle, const pipec_kernel_row *kernel,
                                       const pipec_variant_row *variant, pipec_error *error)
{
    const struct {
        const char *what;
        int wanted, most;
    } rows[] = {
        {"bytes of shared memory per CTA", variant->shared_bytes, bundle->shared_bytes},
        {"threads per CTA", variant->threads, bundle->threads},
        {"CTAs per cluster", variant->cluster[0] * variant->cluster[1] * variant->cluster[2], PIPEC_LARGEST_CLUSTER},
    };
    size_t each;
    for (each = 0; each < sizeof rows / sizeof rows[0]; each++)
        if (rows[each].wanted > rows[each].most)
            return pipec_fail(error, PIPEC_CANNOT_LAUNCH, CUDA_SUCCESS, "kernel `%s`: it needs %d %s, but %s allows %d", kernel->name,
                              rows[each].wanted, rows[each].what, bundle->device_name, rows[each].most);
    return PIPEC_SUCCESS;
}

static pipec_status pipec_check_cluster(const struct PIPEC_BUNDLE *bundle, const pipec_kernel_row *kernel,
                                        const pipec_variant_row *variant, const pipec_loaded *loaded, pipec_error *error)
{
    const int *size = variant->cluster;
    if (size[0] * size[1] * size[2] == 1 || loaded->clusters > 0)
        return PIPEC_SUCCESS;
    return pipec_fail(error, PIPEC_CANNOT_LAUNCH, CUDA_SUCCESS,
                      "kernel `%s`: no cluster of %d x %d x %d CTAs, each with %d threads and %d bytes of shared memory, fits %s: the "
                      "CTAs of a cluster share one group of multiprocessors",
                      kernel->name, size[0], size[1], size[2], variant->threads, variant->shared_bytes, bundle->device_name);
}

static pipec_status pipec_check_memory(const pipec_kernel_row *kernel, const pipec_view *view, pipec_error *error)
{
    const uint64_t places[2] = {view->address, view->address + (uint64_t)view->extent - 1};
    int owner, each;
    for (each = 0; each < 2 && !view->empty; each++) {
        owner = -1;
        if (cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)places[each]) != CUDA_SUCCESS || owner < 0)
            return PIPEC_REFUSE(view, "it %s at 0x%llx, which is no memory that CUDA knows (%lld bytes from 0x%llx)",
                                each ? "ends" : "begins", (unsigned long long)places[each], (long long)view->extent,
                                (unsigned long long)view->address);
    }
    return PIPEC_SUCCESS;
}

static pipec_status pipec_check_context(const struct PIPEC_BUNDLE *bundle, const pipec_kernel_row *kernel, CUstream stream,
                                        pipec_error *error)
{
    CUdevice device = -1;
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = cuCtxGetDevice(&device);
    if (result != CUDA_SUCCESS || device != bundle->device)
        return pipec_fail(error, PIPEC_NO_DEVICE, result, "kernel `%s`: no context of the device that the bundle was opened for (%s) is current",
                          kernel->name, bundle->device_name);
    if (stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
        return PIPEC_SUCCESS;
    /* A stream that is being captured tells nothing else, and the question would end the capture. */
    result = cuStreamIsCapturing(stream, &capture);
    if (result != CUDA_SUCCESS)
        return pipec_driver_failed(error, kernel->name, "asking whether the stream is being captured", "cuStreamIsCapturing", result);
    if (capture != CU_STREAM_CAPTURE_STATUS_NONE)
        return PIPEC_SUCCESS;
    result = cuStreamGetDevice(stream, &device);
    if (result != CUDA_SUCCESS)
        return pipec_driver_failed(error, kernel->name, "asking for the device of the stream", "cuStreamGetDevice", result);
    if (device != bundle->device)
        return pipec_fail(error, PIPEC_NO_DEVICE, CUDA_SUCCESS,
                          "kernel `%s`: the stream belongs to cuda:%d, but the launch is on cuda:%d", kernel->name, (int)device,
                          (int)bundle->device);
    return PIPEC_SUCCESS;
}

/* --- the launch ---------------------------------------------------------------------------------------------------------- */

static pipec_status pipec_encode(const pipec_kernel_row *kernel, const pipec_map_row *map, const pipec_view *view, uint64_t address,
                                 CUtensorMap *made, pipec_error *error)
{
    cuuint64_t dims[PIPEC_MOST_RANK], strides[PIPEC_MOST_RANK];
    cuuint32_t steps[PIPEC_MOST_RANK];
    const int rank = view->row->rank, item = view->row->item_bytes;
    pipec_words doing = {"", 0};
    CUresult result;
    int place, axis;
    for (place = 0; place < map->rank; place++) {
        axis = rank - 1 - place; /* below 0: padding in front, of size 1 */
        steps[place] = PIPEC_ELEMENT_STEP;
        if (view->empty) {
            dims[place] = place ? 1 : map->least_row;
            strides[place] = map->least_stride;
            continue;
        }
        dims[place] = axis < 0 ? 1 : (cuuint64_t)view->shape[axis];
        if (place == 0 && axis >= 0)
            dims[0] = dims[0] * (cuuint64_t)item * 8 / (cuuint64_t)(map->bits ? map->bits : 8 * item);
        strides[place] = axis >= 0 ? (cuuint64_t)view->strides[axis]
                                   : (cuuint64_t)pipec_rounded_up(rank ? view->shape[0] * view->strides[0] : item, PIPEC_TENSOR_MAP_ALIGNMENT);
    }
    result = cuTensorMapEncodeTiled(made, map->type, (cuuint32_t)map->rank, (void *)(uintptr_t)address, dims, strides + 1, map->box,
                                    steps, PIPEC_INTERLEAVE, map->swizzle, PIPEC_PROMOTION, PIPEC_FILL);
    if (result == CUDA_SUCCESS)
        return PIPEC_SUCCESS;
    pipec_say(&doing, "encoding the tensor map of parameter `%s`", view->row->name);
    return pipec_driver_failed(error, kernel->name, doing.text, "cuTensorMapEncodeTiled", result);
}

/* What the driver is called with: the parameters, and where each of them lies. */
typedef struct {
    CUtensorMap maps[PIPEC_MOST_MAPS];
    uint64_t words[PIPEC_MOST_PARAMETERS];
    void *pointers[PIPEC_MOST_PARAMETERS];
} pipec_frame;

static pipec_status pipec_fill(const struct PIPEC_BUNDLE *bundle, const pipec_kernel_row *kernel, const pipec_variant_row *variant,
                               const pipec_view *views, const int64_t *dimensions, const pipec_scalar *scalars, pipec_frame *frame,
                               pipec_error *error)
{
    const pipec_parameter_row *row;
    const pipec_view *view;
    pipec_status status;
    int each;
    for (each = 0; each < variant->parameter_count; each++) {
        row = &variant->parameters[each];
        view = &views[row->kind == PIPEC_DIMENSION || row->kind == PIPEC_SCALAR ? 0 : row->subject];
        frame->pointers[each] = &frame->words[each];
        switch (row->kind) {
        case PIPEC_TENSOR_MAP:
            frame->pointers[each] = &frame->maps[row->detail];
            status = pipec_encode(kernel, &variant->maps[row->detail], view, view->empty ? (uint64_t)bundle->stand_in : view->address,
                                  &frame->maps[row->detail], error);
            if (status != PIPEC_SUCCESS)
                return status;
            break;
        case PIPEC_POINTER:
            frame->words[each] = view->empty ? (uint64_t)bundle->stand_in : view->address;
            break;
        case PIPEC_STRIDE:
            frame->words[each] = (uint64_t)(view->strides[row->detail] / view->row->item_bytes);
            break;
        case PIPEC_DIMENSION:
            frame->words[each] = (uint64_t)dimensions[row->subject]; /* read as 32 bits, on machines that are all little-endian */
            break;
        default:
            frame->pointers[each] = (void *)(uintptr_t)scalars[row->subject].data;
        }
    }
    return PIPEC_SUCCESS;
}

/* Whether CTAs can be given more shared memory than they use. What threads read through pointers is cached in what is left, and which CTAs
   of a cluster fit is the driver's affair. */
static int pipec_may_share(const pipec_variant_row *variant)
{
    int each;
    for (each = 0; each < variant->parameter_count; each++)
        if (variant->parameters[each].kind == PIPEC_POINTER)
            return 0;
    return variant->cluster[0] * variant->cluster[1] * variant->cluster[2] == 1;
}

/* The dynamic shared memory of a CTA. A launch that may overlap the one in front starts its CTAs wherever there is room; where several are
   meant to stay on each multiprocessor, their share leaves room for no more than there should be. */
static int64_t pipec_shared_share(const struct PIPEC_BUNDLE *bundle, const pipec_variant_row *variant, const int64_t *grid)
{
    const int64_t each = (grid[0] * grid[1] * grid[2] + bundle->multiprocessors - 1) / bundle->multiprocessors;
    int64_t share;
    if (!variant->programmatic || each < 2 || !pipec_may_share(variant))
        return variant->shared_bytes;
    share = bundle->shared_of_all / each - bundle->shared_reserved;
    if (share <= variant->shared_bytes)
        return variant->shared_bytes;
    share -= share % PIPEC_SHARED_GRANULE;
    if (share > bundle->shared_bytes)
        share = bundle->shared_bytes;
    return share < variant->shared_bytes ? variant->shared_bytes : share;
}

static void pipec_configure(const struct PIPEC_BUNDLE *bundle, const pipec_variant_row *variant, const int64_t *grid, CUstream stream,
                            CUlaunchConfig *config, CUlaunchAttribute *attributes)
{
    const int *size = variant->cluster;
    unsigned count = 0;
    memset(config, 0, sizeof *config);
    memset(attributes, 0, 2 * sizeof *attributes);
    config->gridDimX = (unsigned)grid[0];
    config->gridDimY = (unsigned)grid[1];
    config->gridDimZ = (unsigned)grid[2];
    config->blockDimX = (unsigned)variant->threads;
    config->blockDimY = 1;
    config->blockDimZ = 1;
    config->sharedMemBytes = (unsigned)pipec_shared_share(bundle, variant, grid);
    config->hStream = stream;
    if (size[0] * size[1] * size[2] != 1) {
        attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attributes[count].value.clusterDim.x = (unsigned)size[0];
        attributes[count].value.clusterDim.y = (unsigned)size[1];
        attributes[count++].value.clusterDim.z = (unsigned)size[2];
    }
    if (variant->programmatic) {
        attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attributes[count++].value.programmaticStreamSerializationAllowed = 1;
    }
    config->attrs = attributes;
    config->numAttrs = count;
}

static const pipec_form_row *pipec_form_of(const pipec_kernel_row *kernel, int major, int minor)
{
    int each;
    for (each = 0; each < kernel->form_count; each++)
        if (kernel->forms[each].major == major && kernel->forms[each].minor == minor)
            return &kernel->forms[each];
    return NULL;
}

/* How many CTAs a kernel launches whose blocks follow the GPU: one to a multiprocessor, in clusters that fit at the same time. Clusters
   of which none fits are told later. */
static int64_t pipec_resident(const struct PIPEC_BUNDLE *bundle, const pipec_variant_row *variant, const pipec_loaded *loaded)
{
    const int64_t ctas = (int64_t)loaded->clusters * variant->cluster[0] * variant->cluster[1] * variant->cluster[2];
    return ctas > 0 && ctas < bundle->multiprocessors ? ctas : bundle->multiprocessors;
}

static pipec_status pipec_bind(const pipec_kernel_row *kernel, const pipec_variant_row *variant, const pipec_array *arrays,
                               const pipec_scalar *scalars, pipec_view *views, int64_t *names, pipec_error *error)
{
    int64_t *dimensions = names + kernel->integer_count;
    pipec_status status = PIPEC_SUCCESS;
    int each;
    for (each = 0; each < kernel->tensor_count && status == PIPEC_SUCCESS; each++)
        status = pipec_view_of(kernel, &variant->tensors[each], &arrays[each], &views[each], error);
    if (status == PIPEC_SUCCESS)
        status = pipec_bind_dimensions(kernel, views, dimensions, error);
    if (status == PIPEC_SUCCESS)
        status = pipec_check_overlap(kernel, views, error);
    for (each = 0; each < kernel->integer_count; each++)
        names[each] = scalars[each].value;
    return status;
}

/* `scalars`: whole numbers first, in the order of the names; `data` in the order of the kernel's scalars. */
static pipec_status pipec_launch(const struct PIPEC_BUNDLE *bundle, const pipec_kernel_row *kernel, const pipec_array *arrays,
                                 const pipec_scalar *integers, const pipec_scalar *scalars, CUstream stream, pipec_error *error)
{
    int64_t names[PIPEC_MOST_NAMES] = {0}, grid[3] = {0, 0, 0};
    pipec_view views[PIPEC_MOST_TENSORS];
    pipec_frame frame;
    CUlaunchConfig config;
    CUlaunchAttribute attributes[2];
    const pipec_form_row *form;
    const pipec_variant_row *variant;
    const pipec_loaded *loaded;
    pipec_status status;
    CUresult result;
    int each, chosen;
    if (error != NULL)
        memset(error, 0, sizeof *error);
    if (bundle == NULL)
        return pipec_fail(error, PIPEC_NO_DEVICE, CUDA_SUCCESS, "kernel `%s`: the bundle is not open", kernel->name);
    form = pipec_form_of(kernel, bundle->major, bundle->minor);
    if (form == NULL)
        return pipec_fail(error, PIPEC_NO_DEVICE, CUDA_SUCCESS, "kernel `%s`: the bundle has no code for %s (sm_%d%d)", kernel->name,
                          bundle->device_name, bundle->major, bundle->minor);
    pipec_look_at_dimensions(kernel, form->variants[0].tensors, arrays, names + kernel->integer_count);
    chosen = pipec_choose(kernel, form, names + kernel->integer_count);
    variant = &form->variants[chosen];
    loaded = &bundle->loaded[form->first_loaded + chosen];
    names[kernel->integer_count + kernel->dimension_count] = pipec_resident(bundle, variant, loaded);
    status = pipec_bind(kernel, variant, arrays, integers, views, names, error);
    if (status == PIPEC_SUCCESS)
        status = pipec_grid(kernel, variant, names, grid, error);
    if (status == PIPEC_SUCCESS)
        status = pipec_check_conditions(kernel, variant, names, error);
    if (status == PIPEC_SUCCESS)
        status = pipec_check_limits(bundle, kernel, variant, error);
    if (status != PIPEC_SUCCESS || grid[0] == 0 || grid[1] == 0 || grid[2] == 0)
        return status;
    status = pipec_check_context(bundle, kernel, stream, error);
    for (each = 0; each < kernel->tensor_count && status == PIPEC_SUCCESS; each++)
        status = pipec_check_memory(kernel, &views[each], error);
    if (status == PIPEC_SUCCESS)
        status = pipec_check_cluster(bundle, kernel, variant, loaded, error);
    if (status == PIPEC_SUCCESS)
        status = pipec_fill(bundle, kernel, variant, views, names + kernel->integer_count, scalars, &frame, error);
    if (status != PIPEC_SUCCESS)
        return status;
    pipec_configure(bundle, variant, grid, stream, &config, attributes);
    /* The driver copies all parameters during its call. */
    result = cuLaunchKernelEx(&config, (CUfunction)loaded->kernel, frame.pointers, NULL);
    return result == CUDA_SUCCESS ? PIPEC_SUCCESS : pipec_driver_failed(error, kernel->name, "launching it", "cuLaunchKernelEx", result);
}

/* --- opening and closing ------------------------------------------------------------------------------------------------- */

#define PIPEC_TRY(kernel, doing, function, arguments)                                     \
    do {                                                                                  \
        CUresult pipec_result = function arguments;                                       \
        if (pipec_result != CUDA_SUCCESS)                                                 \
            return pipec_driver_failed(error, kernel, doing, #function, pipec_result);    \
    } while (0)

static pipec_status pipec_ask_device(struct PIPEC_BUNDLE *bundle, pipec_error *error)
{
    const struct {
        CUdevice_attribute attribute;
        int *place;
    } rows[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &bundle->major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &bundle->minor},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &bundle->multiprocessors},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &bundle->shared_bytes},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, &bundle->shared_of_all},
        {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, &bundle->shared_reserved},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &bundle->threads},
    };
    size_t each;
    PIPEC_TRY("(device)", "looking for the current device", cuCtxGetDevice, (&bundle->device));
    PIPEC_TRY("(device)", "looking for the current device", cuDeviceGetName,
              (bundle->device_name, (int)sizeof bundle->device_name, bundle->device));
    for (each = 0; each < sizeof rows / sizeof rows[0]; each++)
        PIPEC_TRY("(device)", "looking for the current device", cuDeviceGetAttribute,
                  (rows[each].place, rows[each].attribute, bundle->device));
    return PIPEC_SUCCESS;
}

static pipec_status pipec_load(const struct PIPEC_BUNDLE *bundle, const pipec_kernel_row *kernel, const pipec_variant_row *variant,
                               pipec_loaded *loaded, pipec_error *error)
{
    const int *size = variant->cluster;
    const int64_t grid[3] = {size[0], size[1], size[2]};
    CUlaunchConfig config;
    CUlaunchAttribute attributes[2];
    if (variant->shared_bytes > bundle->shared_bytes || size[0] * size[1] * size[2] > PIPEC_LARGEST_CLUSTER)
        return PIPEC_SUCCESS; /* each launch says why not */
    PIPEC_TRY(kernel->name, "loading the code", cuLibraryLoadData, (&loaded->library, variant->code, NULL, NULL, 0, NULL, NULL, 0));
    PIPEC_TRY(kernel->name, "finding the kernel", cuLibraryGetKernel, (&loaded->kernel, loaded->library, kernel->name));
    PIPEC_TRY(kernel->name, "allowing its shared memory", cuKernelSetAttribute,
              (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
               pipec_may_share(variant) ? bundle->shared_bytes : variant->shared_bytes, loaded->kernel, bundle->device));
    if (size[0] * size[1] * size[2] == 1)
        return PIPEC_SUCCESS;
    if (size[0] * size[1] * size[2] > PIPEC_PORTABLE_CLUSTER)
        PIPEC_TRY(kernel->name, "allowing its cluster size", cuKernelSetAttribute,
                  (CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, loaded->kernel, bundle->device));
    pipec_configure(bundle, variant, grid, NULL, &config, attributes);
    PIPEC_TRY(kernel->name, "asking how many of its clusters fit", cuOccupancyMaxActiveClusters,
              (&loaded->clusters, (CUfunction)loaded->kernel, &config));
    return PIPEC_SUCCESS;
}

static pipec_status pipec_load_all(struct PIPEC_BUNDLE *bundle, const pipec_kernel_row *kernels, int count, pipec_error *error)
{
    const pipec_form_row *form;
    pipec_status status;
    int each, variant, found = 0;
    status = pipec_ask_device(bundle, error);
    if (status != PIPEC_SUCCESS)
        return status;
    for (each = 0; each < count; each++) {
        form = pipec_form_of(&kernels[each], bundle->major, bundle->minor);
        for (variant = 0; form != NULL && variant < form->variant_count; variant++) {
            found = 1;
            status = pipec_load(bundle, &kernels[each], &form->variants[variant], &bundle->loaded[form->first_loaded + variant], error);
            if (status != PIPEC_SUCCESS)
                return status;
        }
    }
    if (!found)
        return pipec_fail(error, PIPEC_NO_DEVICE, CUDA_SUCCESS, "the bundle has code for %s, but %s is sm_%d%d", PIPEC_TARGETS,
                          bundle->device_name, bundle->major, bundle->minor);
    PIPEC_TRY("(device)", "allocating a stand-in for an empty array", cuMemAlloc, (&bundle->stand_in, PIPEC_STAND_IN_BYTES));
    PIPEC_TRY("(device)", "clearing the stand-in for an empty array", cuMemsetD8, (bundle->stand_in, 0, PIPEC_STAND_IN_BYTES));
    return PIPEC_SUCCESS;
}

/* After a fault every call fails, and the first error is the one to tell: results are not looked at. */
static void pipec_close(struct PIPEC_BUNDLE *bundle)
{
    int each;
    if (bundle == NULL)
        return;
    for (each = 0; each < PIPEC_VARIANTS; each++)
        if (bundle->loaded[each].library != NULL)
            (void)cuLibraryUnload(bundle->loaded[each].library);
    if (bundle->stand_in != 0)
        (void)cuMemFree(bundle->stand_in);
    free(bundle);
}

static pipec_status pipec_open(struct PIPEC_BUNDLE **opened, const pipec_kernel_row *kernels, int count, pipec_error *error)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    struct PIPEC_BUNDLE *bundle;
    pipec_status status;
    CUresult result;
    if (error != NULL)
        memset(error, 0, sizeof *error);
    if (opened == NULL)
        return pipec_fail(error, PIPEC_BAD_ARGUMENT, CUDA_SUCCESS, "there is no place to put the bundle that is opened");
    *opened = NULL;
    bundle = (struct PIPEC_BUNDLE *)calloc(1, sizeof *bundle);
    if (bundle == NULL)
        return pipec_fail(error, PIPEC_NO_MEMORY, CUDA_SUCCESS, "the host has no memory for the bundle");
    /* Loading and allocating do not disturb a capture of another thread's stream. */
    result = cuThreadExchangeStreamCaptureMode(&mode);
    if (result != CUDA_SUCCESS) {
        free(bundle);
        return pipec_driver_failed(error, "(device)", "allowing calls during a capture", "cuThreadExchangeStreamCaptureMode", result);
    }
    status = pipec_load_all(bundle, kernels, count, error);
    (void)cuThreadExchangeStreamCaptureMode(&mode);
    if (status == PIPEC_SUCCESS)
        *opened = bundle;
    else
        pipec_close(bundle);
    return status;
}

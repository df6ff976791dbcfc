#ifndef TRT_RUNTIME_DELEGATE_INTERFACE_H_
#define TRT_RUNTIME_DELEGATE_INTERFACE_H_

#include <stddef.h>
#include <stdint.h>

/* How ExecuTorch's side of the delegate (backend.cpp) talks to libtrt_runtime.so. Plain C:
   ExecuTorch and torch both have headers named c10, of different content, and no file may see both.
 */
#ifdef __cplusplus
extern "C" {
#endif

#define TRT_DELEGATE_API __attribute__((visibility("default")))

typedef enum {
    TRT_DELEGATE_OK = 0,
    TRT_DELEGATE_INCOMPATIBLE = 1,     /* the payload is damaged, or nothing here can run it */
    TRT_DELEGATE_INVALID_ARGUMENT = 2, /* the arguments are not what the engine takes */
    TRT_DELEGATE_BUSY = 3,             /* another thread is in a call of the same delegate */
    TRT_DELEGATE_FAILED = 4,           /* it was run and failed */
} TrtDelegateStatus;

/* An argument. `dtype` is the number that torch and ExecuTorch share (c10/core/ScalarType.h). */
typedef struct {
    void* data;
    const int32_t* sizes;
    int32_t rank;
    int32_t dtype;
} TrtDelegateTensor;

/* Owner of the payload: `release(context)` is called once, by the end of `open` or any time later,
   when nothing reads the payload any more. */
typedef struct {
    void (*release)(void* context);
    void* context;
} TrtDelegateOwner;

/* A piece of the program's named data, and its owner. */
typedef struct {
    const void* data;
    size_t size;
    TrtDelegateOwner owner;
} TrtDelegateBuffer;

/* The program's named data: `find` is not 0 if there is nothing under the key. It is only called
   during `open`. */
typedef struct {
    int (*find)(void* context, const char* key, TrtDelegateBuffer* found);
    void* context;
} TrtDelegateData;

/* Gives the output with the index `argument` new sizes (of its own rank) and tells where its data
   is now. Not 0 if the caller has no room for them. */
typedef struct {
    int (*resize)(void* context, size_t argument, const int32_t* sizes, void** data);
    void* context;
} TrtDelegateResizer;

/* Where a message goes: at most `capacity` bytes with the ending zero, cut off if it is longer. */
typedef struct {
    char* text;
    size_t capacity;
} TrtDelegateMessage;

typedef struct TrtDelegate TrtDelegate;

/* Makes a delegate of a payload (TRTN, TR01 or TR02). Takes over `owner`, also when it fails. */
TRT_DELEGATE_API TrtDelegateStatus trt_delegate_open(const void* payload, size_t size,
                                                     TrtDelegateOwner owner, TrtDelegateData data,
                                                     TrtDelegate** delegate,
                                                     TrtDelegateMessage message);

/* Runs it on inputs and outputs, in the order of the payload. Outputs are resized first. */
TRT_DELEGATE_API TrtDelegateStatus trt_delegate_execute(TrtDelegate* delegate,
                                                        const TrtDelegateTensor* arguments,
                                                        size_t count, TrtDelegateResizer resizer,
                                                        TrtDelegateMessage message);

/* Keeps what the caller itself found wrong with the arguments, as `execute` keeps what it finds:
   for Python, which ExecuTorch tells nothing but a number. */
TRT_DELEGATE_API void trt_delegate_refuse(const char* message);

/* Takes a message of ExecuTorch's log, from any thread and without the GIL: for stderr, or for the
   exception that the call ends in (log.h). */
TRT_DELEGATE_API void trt_delegate_log(const char* file, size_t line, const char* message);

TRT_DELEGATE_API void trt_delegate_close(TrtDelegate* delegate);

#ifdef __cplusplus
}
#endif

#endif

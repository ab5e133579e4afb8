/* plugin_cuda_queue.h -- a GPU's queue for transfers between ranks, and NCCL in it.
 *
 * plugin_cuda_queue.c has the queue, plugin_cuda_nccl.c the library, counts_cuda.cu the kernel that
 * counts its transfers. NCCL is opened by name: the plugin needs neither its header nor its file. */
#ifndef COMM_PLUGIN_CUDA_QUEUE_H
#define COMM_PLUGIN_CUDA_QUEUE_H

#include "comm/queue_api.h"
#include "device/cuda.h"

extern const struct QueueApi cuda_queue_api;

/* In host memory that the GPU writes: transfers that have begun, and those that have ended. */
enum { COUNT_BEGUN, COUNT_ENDED, COUNTS };

Err cuda_queue_count(cudaStream_t stream, unsigned *count); /* adds one, in the stream's order */

int  nccl_find(char why[QUEUE_WHY]);
Err  nccl_id(void *id);
Err  nccl_open(const void *id, int rank, int ranks);
/* Queued on the stream as one group. */
Err  nccl_move(cudaStream_t stream, const CommPart *sends, int n_sends, const CommPart *receives,
               int n_receives);
Err  nccl_look(void); /* an error that it found beside the calls: a lost connection */
void nccl_give_up(void);

#endif

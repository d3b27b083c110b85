/* Signs of life for who supervises the run (renga run): rows of JSON, one a line, at the end of the
   file that the environment variable RENGA_RUN_SIGNS names; without it, or where the file is not
   there, nothing is written. The file is opened for each row, so that a network file system shows
   it at once. Nothing here fails: a run does not end for want of being seen.

     {"sign":"start","processes":[812,813]}   the ranks have met; their processes, in their order
     {"sign":"resumed","step":40}             that many steps are of a checkpoint
     {"sign":"step","step":41}                so many are done; at most five rows a second
     {"sign":"work"}                          something else goes on, as a validation
     {"sign":"checkpoint","step":40}          it is whole, and named
     {"sign":"error","rank":1,"code":13,"text":"..."}    any rank's, as it is printed
     {"sign":"end","code":0}                  all is written, and all ranks agree; the exit code */
#pragma once
#include <stdint.h>

/* On rank 0 of MPI_COMM_WORLD, not collective; on others these do nothing. */
void RengaSignStep_Private(int64_t step);
void RengaSignWork_Private(void);
void RengaSignResumed_Private(int64_t step);
void RengaSignCheckpoint_Private(int64_t step);

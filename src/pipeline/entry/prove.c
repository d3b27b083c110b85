/* Whether the list of a part is right: kernels find what they read, and write over nothing that
   others still get. Asked of each list before it is run, and by tests of lists with planted
   faults. */
#include "../window.h"
#include "entry.h"

typedef struct {
  const Chunk *chunk;
  const Sequence *sequence;
  const Instruction *exchange; /* under way; NULL: none */
  bool *here;                  /* [buckets] of values that are gathered */
  bool *free;                  /* [buckets] of gradients: what lay there has left */
  bool *started;               /* [buckets] sums */
} PartProof;

typedef struct {
  int64_t begin, end; /* bytes of a region */
} Range;

static Range RangeOfGradients(const Chunk *chunk, int b)
{
  const GradientBucket *bucket = &chunk->gradients->bucket[b];
  const bool folds = RengaChunkShardsGradients_Private(chunk);
  const int64_t begin = folds ? bucket->local : RengaGradientBytes_Private(chunk, bucket->first);
  return (Range){begin, begin + RengaGradientBytes_Private(chunk, bucket->count)};
}

static Range RangeOfValues(const Chunk *chunk, int b)
{
  const int64_t count = chunk->gradients->bucket[b].count, begin = chunk->window->place[b];
  return (Range){begin, begin + RengaValueBytes_Private(chunk, count)};
}

static bool RangesMeet(Range a, Range b)
{
  return a.begin < b.end && b.begin < a.end;
}

static bool HoldsPlace(Range range, const BucketRows *rows, const Place *place, int row)
{
  return rows->first >= 0 && rows->first <= row && row < rows->end &&
         place->offset >= range.begin && place->offset < range.end;
}

static RengaErrorCode ProveRead(const PartProof *proof, const Place *place, int row)
{
  const Chunk *chunk = proof->chunk;
  const int shared = RengaChunkBuckets_Private(chunk).shared;
  bool here = false;
  for (int b = 0; b < shared && !here; b++)
    here = proof->here[b] &&
           HoldsPlace(RangeOfValues(chunk, b), &proof->sequence->reads[b], place, row);
  RengaCheck(here, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "stage %d: row %d of a part reads a parameter (byte %lld of the window) that has not "
             "been gathered",
             chunk->stage, row, (long long)place->offset);
  return RENGA_SUCCESS;
}

/* Bucket b is written by the row: it is not given to others yet, and others that lay there are. */
static RengaErrorCode ProveBucket(const PartProof *proof, int b, int row)
{
  const Chunk *chunk = proof->chunk;
  const Range range = RangeOfGradients(chunk, b);
  RengaCheck(!proof->started[b], MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "stage %d: row %d of a part writes gradients of bucket %d, whose sum has started",
             chunk->stage, row, b);
  RengaCheck(!RengaChunkShardsGradients_Private(chunk) || proof->free[b], MPI_COMM_SELF,
             RENGA_ERR_INTERNAL,
             "stage %d: row %d of a part writes gradients of bucket %d where others may not have "
             "left",
             chunk->stage, row, b);
  for (int c = 0; c < chunk->memory->n_buckets; c++) {
    const BucketRows *rows = &proof->sequence->writes[c];
    RengaCheck(c == b || rows->first < 0 || rows->end > row || proof->started[c] ||
                   !RangesMeet(range, RangeOfGradients(chunk, c)),
               MPI_COMM_SELF, RENGA_ERR_INTERNAL,
               "stage %d: row %d of a part writes gradients of bucket %d over those of bucket %d, "
               "whose sum has not started",
               chunk->stage, row, b, c);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ProveWrite(const PartProof *proof, const Place *place, int row)
{
  for (int b = 0; b < proof->chunk->memory->n_buckets; b++)
    if (HoldsPlace(RangeOfGradients(proof->chunk, b), &proof->sequence->writes[b], place, row))
      RengaCall(ProveBucket(proof, b, row));
  return RENGA_SUCCESS;
}

static RengaErrorCode ProveRow(const PartProof *proof, int row)
{
  const Instruction *kernel = &proof->sequence->row[row];
  RengaCheck(
      !proof->exchange || !RengaInstructionsConflict_Private(kernel, proof->exchange),
      MPI_COMM_SELF, RENGA_ERR_INTERNAL,
      "stage %d: row %d of a part touches what an exchange that is under way sends or brings",
      proof->chunk->stage, row);
  for (int p = 0; p < kernel->n_in + kernel->n_out; p++) {
    const Place *place = &kernel->place[p];
    if (place->region == REGION_WINDOW) RengaCall(ProveRead(proof, place, row));
    if (place->region == REGION_GRADIENTS && proof->sequence->writes)
      RengaCall(ProveWrite(proof, place, row));
  }
  return RENGA_SUCCESS;
}

/* What lies where the bucket comes is there no more. */
static void Gather(const PartProof *proof, const Entry *entry)
{
  const Chunk *chunk = proof->chunk;
  const Range range = RangeOfValues(chunk, entry->bucket);
  const int shared = RengaChunkBuckets_Private(chunk).shared;
  for (int b = 0; b < shared; b++)
    if (b != entry->bucket && RangesMeet(range, RangeOfValues(chunk, b))) proof->here[b] = false;
  if (entry->ends) proof->here[entry->bucket] = true;
}

static RengaErrorCode ProveSum(const PartProof *proof, const Entry *entry)
{
  const bool again = !entry->ends && proof->started[entry->bucket];
  RengaCheck(!again, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "stage %d: the sum of bucket %d starts twice in a part", proof->chunk->stage,
             entry->bucket);
  const Range range = RangeOfGradients(proof->chunk, entry->bucket);
  for (int t = 0; proof->exchange && t < proof->exchange->n_out; t++) {
    const Place place = proof->exchange->place[t];
    const Range brought = {place.offset, place.offset + proof->exchange->term[t].bytes};
    RengaCheck(place.region != REGION_GRADIENTS || !RangesMeet(range, brought), MPI_COMM_SELF,
               RENGA_ERR_INTERNAL,
               "stage %d: the sum of bucket %d starts or ends while an exchange is under way that "
               "has its gradients",
               proof->chunk->stage, entry->bucket);
  }
  (entry->ends ? proof->free : proof->started)[entry->bucket] = true;
  return RENGA_SUCCESS;
}

static RengaErrorCode ProveExchange(PartProof *proof, const Entry *entry)
{
  RengaCheck(entry->ends == (proof->exchange != NULL), MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "stage %d: an exchange %s at row %d of a part", proof->chunk->stage,
             entry->ends ? "ends that has not started" : "starts beside another", entry->first);
  proof->exchange = entry->ends ? NULL : &proof->sequence->row[entry->first];
  return RENGA_SUCCESS;
}

static RengaErrorCode ProveEntry(PartProof *proof, const Entry *entry)
{
  if (entry->kind == ENTRY_SUM) RengaCall(ProveSum(proof, entry));
  if (entry->kind == ENTRY_EXCHANGE) RengaCall(ProveExchange(proof, entry));
  if (entry->kind == ENTRY_GATHER) Gather(proof, entry);
  for (int row = entry->first; entry->kind == ENTRY_KERNELS && row < entry->last; row++)
    RengaCall(ProveRow(proof, row));
  return RENGA_SUCCESS;
}

static RengaErrorCode ProveEnd(const PartProof *proof)
{
  bool any = false;
  RengaCheck(!proof->exchange, MPI_COMM_SELF, RENGA_ERR_INTERNAL,
             "stage %d: an exchange does not end in its part", proof->chunk->stage);
  for (int b = 0; b < proof->chunk->memory->n_buckets; b++) any = any || proof->started[b];
  for (int b = 0; any && b < proof->chunk->memory->n_buckets; b++)
    RengaCheck(proof->started[b], MPI_COMM_SELF, RENGA_ERR_INTERNAL,
               "stage %d: the sum of bucket %d does not start in the part that makes it",
               proof->chunk->stage, b);
  return RENGA_SUCCESS;
}

/* RENGA_ERR_INTERNAL, with the row, where it is not. */
RengaErrorCode RengaPartProve_Private(const Chunk *chunk, const Program *program, ProgramPart part)
{
  const int buckets = chunk->memory->n_buckets + 1;
  const Sequence *sequence = &program->part[part];
  bool *flags;
  RengaCall(RengaMalloc(3 * buckets, &flags));
  PartProof proof = {.chunk = chunk,
                     .sequence = sequence,
                     .here = flags,
                     .free = flags + buckets,
                     .started = flags + 2 * buckets};
  RengaErrorCode code = RENGA_SUCCESS;
  for (int e = 0; e < sequence->n_entries && !code; e++)
    code = ProveEntry(&proof, &sequence->entry[e]);
  if (!code) code = ProveEnd(&proof);
  RengaFree(&flags);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* Which instructions may change places: those of which neither writes what the other reads or
   writes. What an exchange sends and what it brings counts as written. */
#include "program.h"
#include "renga/private/device.h"

static int64_t BytesAt(const Instruction *row, int p)
{
  if (row->kind == INSTRUCTION_EXCHANGE) return row->term[p].bytes;
  if (row->kind != INSTRUCTION_KERNEL) return row->bytes;
  const RengaOpCall *call = &row->kernel->call;
  return (int64_t)RengaTensorSpecBytes(p < row->n_in ? &call->in[p] : &call->out[p - row->n_in]);
}

/* Bytes of a region; behind the last place comes what a kernel works in. */
typedef struct {
  Place place;
  int64_t bytes;
  bool written;
} Access;

static int CountAccesses(const Instruction *row)
{
  return row->n_in + row->n_out + (row->kind == INSTRUCTION_KERNEL);
}

static Access AccessOf(const Instruction *row, int p)
{
  if (p == row->n_in + row->n_out)
    return (Access){row->workspace, (int64_t)RengaKernelGetWorkspace(row->kernel), true};
  return (Access){row->place[p], BytesAt(row, p), p >= row->n_in};
}

static bool Meet(Access a, Access b)
{
  return (a.written || b.written) && a.place.region != REGION_ABSENT &&
         a.place.region == b.place.region && a.place.offset < b.place.offset + b.bytes &&
         b.place.offset < a.place.offset + a.bytes;
}

bool RengaInstructionsConflict_Private(const Instruction *a, const Instruction *b)
{
  for (int p = 0; p < CountAccesses(a); p++)
    for (int q = 0; q < CountAccesses(b); q++)
      if (Meet(AccessOf(a, p), AccessOf(b, q))) return true;
  return false;
}

/* Of rows [first, exchange) those that neither the exchange nor what stays before it waits for go
   behind it. */
static RengaErrorCode PostponeRows(Sequence *sequence, int first, int exchange)
{
  Instruction *row = sequence->row, *moved;
  bool *stays;
  int at = first, count = 0;
  RengaCall(RengaMalloc(exchange - first + 1, &stays));
  const RengaErrorCode code = RengaMalloc(exchange - first + 1, &moved);
  for (int i = exchange; i >= first && !code; i--) {
    stays[i - first] = i == exchange;
    for (int later = i + 1; later <= exchange && !stays[i - first]; later++)
      stays[i - first] =
          stays[later - first] && RengaInstructionsConflict_Private(&row[i], &row[later]);
  }
  for (int i = first; i <= exchange && !code; i++)
    if (stays[i - first])
      row[at++] = row[i];
    else
      moved[count++] = row[i];
  for (int m = 0; m < count; m++) row[at++] = moved[m];
  RengaFree(&stays);
  RengaFree(&moved);
  RengaCall(code);
  return RENGA_SUCCESS;
}

/* What is done beside exchanges: rows before each, back to the one before it, that it does not
   need. Which memory they have was laid out before, and stays. */
RengaErrorCode RengaProgramPostpone_Private(Program *program)
{
  for (ProgramPart part = PART_CONSTANT; part < PART_COUNT; part++) {
    Sequence *sequence = &program->part[part];
    for (int i = 0, first = 0; i < sequence->count; i++) {
      if (sequence->row[i].kind != INSTRUCTION_EXCHANGE) continue;
      RengaCall(PostponeRows(sequence, first, i));
      while (sequence->row[i].kind != INSTRUCTION_EXCHANGE) i--;
      first = i + 1;
    }
  }
  return RENGA_SUCCESS;
}

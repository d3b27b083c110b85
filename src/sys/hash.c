/* Checksums: XXH64 (https://xxhash.com), by the library of its author. */
#include "renga/private/hash.h"
#include <unistd.h>
#include <xxhash.h>

/*@
   RengaHash - XXH64 of some bytes

   Input:
   . bytes, count - the bytes, and their number, at least 0
   . seed - any number: another seed gives another hash

   See also: RengaGraphGetDigest()
@*/
uint64_t RengaHash(const void *bytes, size_t count, uint64_t seed)
{
  return XXH64(bytes, count, seed);
}

RengaErrorCode RengaHasherCreate(RengaHasher *hasher)
{
  XXH64_state_t *state = XXH64_createState();
  RengaCheck(state != NULL, MPI_COMM_SELF, RENGA_ERR_MEMORY, "no room for the state of a checksum");
  *hasher = (RengaHasher)state;
  RengaHasherRestart(*hasher, 0);
  return RENGA_SUCCESS;
}

void RengaHasherRestart(RengaHasher hasher, uint64_t seed)
{
  XXH64_reset((XXH64_state_t *)hasher, seed);
}

void RengaHasherAdd(RengaHasher hasher, const void *bytes, size_t count)
{
  XXH64_update((XXH64_state_t *)hasher, bytes, count);
}

uint64_t RengaHasherGet(RengaHasher hasher)
{
  return XXH64_digest((const XXH64_state_t *)hasher);
}

void RengaHasherDestroy(RengaHasher *hasher)
{
  XXH64_freeState((XXH64_state_t *)*hasher);
  *hasher = NULL;
}

uint64_t RengaHashHost_Private(void)
{
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return 0;
  return RengaHash(name, sizeof name, 4);
}

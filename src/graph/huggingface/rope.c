/* Angles by which positions turn (Su et al. 2021): rope_parameters or, in older files,
   rope_scaling, and their cosines and sines. */
#include "huggingface.h"
#include <math.h>
#include <string.h>

static const double two_pi = 6.283185307179586476925286766559;

enum {
  LINEAR = 1 << RENGA_HF_ROPE_LINEAR,
  LLAMA3 = 1 << RENGA_HF_ROPE_LLAMA3,
  YARN = 1 << RENGA_HF_ROPE_YARN,
  LONGROPE = 1 << RENGA_HF_ROPE_LONGROPE,
  ALL = ~0
};
#define AT(member) offsetof(RengaHfRope, member)
static const struct {
  const char *name;
  size_t at;    /* of a number */
  int scalings; /* that have it */
} members[] = {{"rope_theta", AT(base), ALL},
               {"partial_rotary_factor", AT(share), ALL},
               {"factor", AT(factor), LINEAR | LLAMA3 | YARN | LONGROPE},
               {"low_freq_factor", AT(low), LLAMA3},
               {"high_freq_factor", AT(high), LLAMA3},
               {"beta_slow", AT(low), YARN},
               {"beta_fast", AT(high), YARN},
               {"attention_factor", AT(attention), YARN | LONGROPE},
               {"original_max_position_embeddings", AT(original), LLAMA3 | YARN | LONGROPE},
               {"short_factor", 0, LONGROPE},
               {"long_factor", 0, LONGROPE}};
enum { N_MEMBERS = sizeof members / sizeof members[0] };

/* -1: there is none of that name that the scaling has. */
static int FindMember(const char *name, RengaHfScaling scaling)
{
  for (int i = 0; i < N_MEMBERS; i++)
    if (strcmp(members[i].name, name) == 0 && (members[i].scalings & 1 << scaling)) return i;
  return -1;
}

static RengaErrorCode ReadScaling(const char *folder, const char *key, const char *name,
                                  RengaHfRope *rope)
{
  static const struct {
    const char *name;
    RengaHfScaling scaling;
  } known[] = {{"default", RENGA_HF_ROPE_DEFAULT},   {"linear", RENGA_HF_ROPE_LINEAR},
               {"llama3", RENGA_HF_ROPE_LLAMA3},     {"yarn", RENGA_HF_ROPE_YARN},
               {"longrope", RENGA_HF_ROPE_LONGROPE}, {"su", RENGA_HF_ROPE_LONGROPE}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (strcmp(known[i].name, name) != 0) continue;
    rope->scaling = known[i].scaling;
    return RENGA_SUCCESS;
  }
  RengaRaise(
      MPI_COMM_SELF, RENGA_ERR_SUPPORT,
      "%s/config.json: %s has the type %.80s, which is not built; built are default, "
      "linear, llama3, yarn, longrope: export it from Python by renga.export and train the file "
      "(doc/huggingface.md)",
      folder, key, name);
}

/* A list of numbers above 0. */
static RengaErrorCode ReadDivisors(const char *folder, const char *key, const char *name,
                                   json_object *value, RengaHfRope *rope)
{
  const int k = strcmp(name, "long_factor") == 0;
  const int64_t count =
      json_object_is_type(value, json_type_array) ? (int64_t)json_object_array_length(value) : 0;
  RengaCheck(count > 0 && !rope->divisor[k], MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/config.json: %s: %s is %.80s, must be one list of numbers", folder, key, name,
             json_object_to_json_string(value));
  RengaCall(RengaMalloc(count, &rope->divisor[k]));
  rope->n_divisors[k] = count;
  for (int64_t i = 0; i < count; i++) {
    const double number = json_object_get_double(json_object_array_get_idx(value, (size_t)i));
    rope->divisor[k][i] = number;
    RengaCheck(isfinite(number) && number > 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "%s/config.json: %s: %s has no number above 0 at place %lld", folder, key, name,
               (long long)i);
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadMember(const char *folder, const char *key, const char *name,
                                 json_object *value, RengaHfRope *rope)
{
  const double number = json_object_get_double(value);
  const int found = FindMember(name, rope->scaling);
  RengaCheck(found >= 0, MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%s/config.json: %s: %.80s is %.80s, of which is not known what it changes", folder,
             key, name, json_object_to_json_string(value));
  if (!strcmp(name, "short_factor") || !strcmp(name, "long_factor")) {
    RengaCall(ReadDivisors(folder, key, name, value, rope));
    return RENGA_SUCCESS;
  }
  RengaCheck(isfinite(number) && number > 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/config.json: %s: %s is %.80s, must be a number above 0", folder, key, name,
             json_object_to_json_string(value));
  memcpy((char *)rope + members[found].at, &number, sizeof number);
  return RENGA_SUCCESS;
}

/* The type first: which members count depends on it. */
static RengaErrorCode ReadMembers(const char *folder, const char *key, json_object *object,
                                  RengaHfRope *rope)
{
  static const char *const types[] = {"type", "rope_type"};
  for (int i = 0; i < 2; i++) {
    json_object *type = NULL;
    if (json_object_object_get_ex(object, types[i], &type) && type)
      RengaCall(ReadScaling(folder, key, json_object_get_string(type), rope));
  }
  json_object_object_foreach(object, name, value)
  {
    const bool type = strcmp(name, "type") == 0 || strcmp(name, "rope_type") == 0;
    if (value && !type) RengaCall(ReadMember(folder, key, name, value, rope));
  }
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHfCheckRope(const char *folder, const RengaHfRope *rope, int64_t width)
{
  const int64_t turned = (int64_t)((double)width * rope->share), half = turned / 2;
  const RengaHfScaling scaling = rope->scaling;
  RengaCheck(rope->share == 0 || (turned > 0 && turned % 2 == 0 && turned <= width), MPI_COMM_SELF,
             RENGA_ERR_SUPPORT,
             "%s/config.json: %g of the %lld numbers of a head turn, which are no pairs", folder,
             rope->share, (long long)width);
  const bool mixes = scaling == RENGA_HF_ROPE_LLAMA3 || scaling == RENGA_HF_ROPE_YARN;
  RengaCheck((scaling != RENGA_HF_ROPE_LINEAR && !mixes) || rope->factor > 0, MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT, "%s/config.json: the scaling of positions has no factor",
             folder);
  RengaCheck(scaling != RENGA_HF_ROPE_LLAMA3 || (rope->low > 0 && rope->high > rope->low),
             MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/config.json: llama3 needs low_freq_factor and a larger high_freq_factor", folder);
  RengaCheck((!mixes && scaling != RENGA_HF_ROPE_LONGROPE) || rope->original > 1, MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT,
             "%s/config.json: the scaling of positions has no original_max_position_embeddings",
             folder);
  for (int k = 0; k < 2 && scaling == RENGA_HF_ROPE_LONGROPE; k++)
    RengaCheck(rope->n_divisors[k] == half, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "%s/config.json: %s_factor has %lld numbers, must have %lld", folder,
               k ? "long" : "short", (long long)rope->n_divisors[k], (long long)half);
  return RENGA_SUCCESS;
}

RengaErrorCode RengaHfReadRope(const char *folder, const char *key, json_object *value,
                               RengaHfConfig *config)
{
  json_object *full = NULL, *local = NULL;
  RengaCheck(json_object_is_type(value, json_type_object), MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/config.json: %s is %.80s, must be an object", folder, key,
             json_object_to_json_string(value));
  json_object_object_get_ex(value, "full_attention", &full);
  json_object_object_get_ex(value, "sliding_attention", &local);
  if (!full && !local) {
    RengaCall(ReadMembers(folder, key, value, &config->rope[0]));
    return RENGA_SUCCESS;
  }
  RengaCheck(full && local && json_object_object_length(value) == 2, MPI_COMM_SELF,
             RENGA_ERR_SUPPORT,
             "%s/config.json: %s is %.200s: full_attention and sliding_attention are expected",
             folder, key, json_object_to_json_string(value));
  RengaCall(ReadMembers(folder, key, full, &config->rope[0]));
  RengaCall(ReadMembers(folder, key, local, &config->rope[1]));
  return RENGA_SUCCESS;
}

/* Low frequencies are divided by the factor, those between are mixed (Grattafiori et al. 2024). */
static float ScaleAsLlama3(const RengaHfRope *rope, float frequency)
{
  const double wavelength = two_pi / (double)frequency;
  const double turns = rope->original / wavelength;
  if (turns > rope->high) return frequency;
  if (turns < rope->low) return (float)((double)frequency / rope->factor);
  const double smooth = (turns - rope->low) / (rope->high - rope->low);
  return (float)((1 - smooth) * (double)frequency / rope->factor + smooth * (double)frequency);
}

/* The place among the frequencies of that which turns so often in the original length. */
static double FindTurning(const RengaHfRope *rope, double turns, int64_t turned)
{
  return (double)turned * log(rope->original / (turns * two_pi)) / (2 * log(rope->base));
}

/* As much of the divided frequency as the place lies behind those that turn often (Peng et al.
   2023). */
static float ScaleAsYarn(const RengaHfRope *rope, float frequency, int64_t pair, int64_t turned)
{
  const double fast = rope->high > 0 ? rope->high : 32, slow = rope->low > 0 ? rope->low : 1;
  double first = floor(FindTurning(rope, fast, turned)),
         last = ceil(FindTurning(rope, slow, turned));
  if (first < 0) first = 0;
  if (last > (double)turned - 1) last = (double)turned - 1;
  if (first == last) last += 0.001;
  double share = ((double)pair - first) / (last - first);
  share = share < 0 ? 0 : share > 1 ? 1 : share;
  return (float)((double)frequency / rope->factor * share + (double)frequency * (1 - share));
}

static float FindFrequency(const RengaHfRope *rope, int64_t places, int64_t pair, int64_t turned)
{
  const double power = pow(rope->base, (double)((float)(2 * pair) / (float)turned));
  const float frequency = 1.0f / (float)power;
  const double *divisor = rope->divisor[(double)places > rope->original];
  switch (rope->scaling) {
  case RENGA_HF_ROPE_LINEAR:
    return (float)((double)frequency / rope->factor);
  case RENGA_HF_ROPE_LLAMA3:
    return ScaleAsLlama3(rope, frequency);
  case RENGA_HF_ROPE_YARN:
    return ScaleAsYarn(rope, frequency, pair, turned);
  case RENGA_HF_ROPE_LONGROPE:
    return 1.0f / ((float)divisor[pair] * (float)power);
  case RENGA_HF_ROPE_DEFAULT:
    break;
  }
  return frequency;
}

/* Scores grow with the length (Peng et al. 2023; Ding et al. 2024). */
static double FindAttentionFactor(const RengaHfRope *rope, int64_t longest)
{
  const double own = rope->original > 0 ? (double)longest / rope->original : 1;
  const double factor = rope->factor > 0 ? rope->factor : own;
  if (rope->scaling != RENGA_HF_ROPE_YARN && rope->scaling != RENGA_HF_ROPE_LONGROPE) return 1;
  if (rope->attention > 0) return rope->attention;
  if (factor <= 1) return 1;
  return rope->scaling == RENGA_HF_ROPE_YARN ? 0.1 * log(factor) + 1
                                             : sqrt(1 + log(factor) / log(rope->original));
}

void RengaHfFillAngles(const RengaHfRope *rope, int64_t longest, int64_t places, int64_t width,
                       float cosines[], float sines[])
{
  const int64_t turned = (int64_t)((double)width * rope->share), half = turned / 2;
  const float factor = (float)FindAttentionFactor(rope, longest);
  for (int64_t number = 0; number < width; number++) {
    const bool turns = number < turned;
    const float frequency = turns ? FindFrequency(rope, places, number % half, turned) : 0;
    for (int64_t place = 0; place < places; place++) {
      const float angle = (float)place * frequency;
      cosines[place * width + number] = (float)cos((double)angle) * (turns ? factor : 1);
      sines[place * width + number] = (float)sin((double)angle) * factor;
    }
  }
}

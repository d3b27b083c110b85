/* Angles by which positions turn (Su et al. 2021): rope_parameters or, in older files,
   rope_scaling, and their cosines and sines. */
#include "huggingface.h"
#include <math.h>
#include <string.h>

static const double two_pi = 6.283185307179586476925286766559;

#define AT(member) offsetof(RengaHfRope, member)
static const struct {
  const char *name;
  size_t at;
} members[] = {{"rope_theta", AT(base)},       {"partial_rotary_factor", AT(share)},
               {"factor", AT(factor)},         {"low_freq_factor", AT(low)},
               {"high_freq_factor", AT(high)}, {"original_max_position_embeddings", AT(original)}};
enum { N_MEMBERS = sizeof members / sizeof members[0] };

static RengaErrorCode ReadScaling(const char *folder, const char *key, const char *name,
                                  RengaHfRope *rope)
{
  static const char *const names[] = {"default", "linear", "llama3"};
  for (int i = 0; i < 3; i++) {
    if (strcmp(names[i], name) != 0) continue;
    rope->scaling = (RengaHfScaling)i;
    return RENGA_SUCCESS;
  }
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%s/config.json: %s has the type %.80s, which is not built; built are default, "
             "linear, llama3: export it from Python by renga.export and train the file "
             "(doc/huggingface.md)",
             folder, key, name);
}

static RengaErrorCode ReadMember(const char *folder, const char *key, const char *name,
                                 json_object *value, RengaHfRope *rope)
{
  const double number = json_object_get_double(value);
  if (!strcmp(name, "rope_type") || !strcmp(name, "type")) {
    RengaCall(ReadScaling(folder, key, json_object_get_string(value), rope));
    return RENGA_SUCCESS;
  }
  for (int i = 0; i < N_MEMBERS; i++) {
    if (strcmp(members[i].name, name) != 0) continue;
    RengaCheck(isfinite(number) && number > 0, MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
               "%s/config.json: %s: %s is %.80s, must be a number above 0", folder, key, name,
               json_object_to_json_string(value));
    memcpy((char *)rope + members[i].at, &number, sizeof number);
    return RENGA_SUCCESS;
  }
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_SUPPORT,
             "%s/config.json: %s: %.80s is %.80s, of which is not known what it changes", folder,
             key, name, json_object_to_json_string(value));
}

static RengaErrorCode ReadMembers(const char *folder, const char *key, json_object *object,
                                  RengaHfRope *rope)
{
  json_object_object_foreach(object, name, value)
  {
    if (value) RengaCall(ReadMember(folder, key, name, value, rope));
  }
  RengaCheck(rope->scaling == RENGA_HF_ROPE_DEFAULT || rope->factor > 0, MPI_COMM_SELF,
             RENGA_ERR_FILE_FORMAT, "%s/config.json: %s has no factor", folder, key);
  RengaCheck(rope->scaling != RENGA_HF_ROPE_LLAMA3 ||
                 (rope->low > 0 && rope->high > rope->low && rope->original > 0),
             MPI_COMM_SELF, RENGA_ERR_FILE_FORMAT,
             "%s/config.json: %s needs low_freq_factor, a larger high_freq_factor and "
             "original_max_position_embeddings",
             folder, key);
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

static float FindFrequency(const RengaHfRope *rope, int64_t pair, int64_t turned)
{
  const float power = (float)(2 * pair) / (float)turned;
  const float frequency = 1.0f / (float)pow(rope->base, (double)power);
  if (rope->scaling == RENGA_HF_ROPE_LINEAR) return (float)((double)frequency / rope->factor);
  if (rope->scaling == RENGA_HF_ROPE_LLAMA3) return ScaleAsLlama3(rope, frequency);
  return frequency;
}

void RengaHfFillAngles(const RengaHfRope *rope, int64_t places, int64_t width, float cosines[],
                       float sines[])
{
  const int64_t turned = (int64_t)((double)width * rope->share), half = turned / 2;
  for (int64_t i = 0; i < places * width; i++) {
    const int64_t number = i % width;
    const float angle =
        number < turned ? (float)(i / width) * FindFrequency(rope, number % half, turned) : 0;
    cosines[i] = (float)cos((double)angle);
    sines[i] = (float)sin((double)angle);
  }
}

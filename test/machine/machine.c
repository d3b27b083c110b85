/* TEST ranks: 1 2 */
/* Machine files: all that are shipped load; errors name the key; levels and their seconds. */
#include "../check.h"
#include "rengacomm.h"
#include "renga/private/links.h"
#include "rengamachine.h"
#include <dirent.h>
#include <math.h>
#include <stdlib.h>

static RengaComm comm;

static const char good[] =
    "# a machine of two nodes under each of two switches\n"
    "-name small -nodes 4 -devices 4 -memory 8GiB\n"
    "-matrix_rate 1e12 -vector_rate 1e11 -memory_bandwidth 1e11 -matrix_rate_bfloat16 3e12\n"
    "-host 2e-5 -spread 0.01 -processors 64 -half_depth 100 -unaligned_efficiency 0.1 -all_reduce "
    "1e-5\n"
    "-matrix_efficiency 0.5 -vector_efficiency 0.5 -bandwidth_efficiency 0.5 -launch 1e-6\n"
    "-node_latency 1e-6 -node_bandwidth 1e10\n"
    "-switch_nodes 2 -switch_latency 2e-6 -switch_bandwidth 1e9\n"
    "-cluster_latency 4e-6 -cluster_bandwidth 1e8\n";

static bool Near(double a, double b)
{
  return fabs(a - b) <= 1e-12 * fabs(b);
}

static RengaErrorCode WriteFile(const char *name, const char *text)
{
  if (RengaCommGetRank(comm) == 0) {
    FILE *file = fopen(name, "w");
    Expect(file && fputs(text, file) >= 0 && fclose(file) == 0);
  }
  RengaCall(RengaCommBarrier(comm, "test"));
  return RENGA_SUCCESS;
}

static RengaErrorCode ReadWhole(const char *name, char **text)
{
  enum { MOST = 4096 };
  RengaCall(RengaCommBarrier(comm, "test"));
  RengaCall(RengaMalloc(MOST, text));
  FILE *file = fopen(name, "r");
  Expect(file);
  (*text)[fread(*text, 1, MOST - 1, file)] = '\0';
  fclose(file);
  RengaCall(RengaCommBarrier(comm, "test"));
  if (RengaCommGetRank(comm) == 0) unlink(name);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestShipped(void)
{
  char folder[4096];
  int count = 0;
  snprintf(folder, sizeof folder, "%s/share/renga/machines", getenv("top_srcdir"));
  DIR *list = opendir(folder);
  Expect(list);
  for (struct dirent *entry; (entry = readdir(list)) != NULL;) {
    char *end = strstr(entry->d_name, ".opts");
    RengaMachine machine;
    const RengaMachineDevice *device;
    const char *name;
    int64_t devices, per_node, nodes;
    if (!end) continue;
    *end = 0;
    RengaCall(RengaMachineCreate(comm, &machine));
    RengaCall(RengaMachineLoad(machine, entry->d_name));
    RengaCall(RengaMachineGetName(machine, &name));
    RengaCall(RengaMachineGetDevice(machine, &device));
    RengaCall(RengaMachineGetDeviceCount(machine, &devices));
    RengaCall(RengaMachineGetDevicesPerNode(machine, &per_node));
    RengaCall(RengaMachineGetNodes(machine, &nodes));
    Expect(strcmp(name, entry->d_name) == 0 && devices == nodes * per_node);
    Expect(RengaMachineMessageSeconds(machine, 0, 1e6) > 0);
    const bool old_kernels = strcmp(name, "selene") == 0;
    Expect((device->host > 0) == old_kernels);
    Expect((device->attention_passes > 0) == old_kernels);
    Expect((device->all_reduce > 0) == old_kernels);
    RengaCall(RengaMachineDestroy(&machine));
    count++;
  }
  closedir(list);
  Expect(count == 10);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestLevels(void)
{
  RengaMachine machine;
  int count;
  int64_t wished;
  const RengaMachineLevel *level;
  RengaCall(WriteFile("small.opts", good));
  RengaCall(RengaMachineCreate(comm, &machine));
  RengaCall(RengaMachineLoad(machine, "small.opts"));
  RengaCall(RengaMachineGetLevels(machine, &count, &level));
  Expect(count == 3 && level[0].devices == 4 && level[1].devices == 8 && level[2].devices == 16);
  Expect(RengaMachineLevelOf(machine, 0, 3) == 0 && RengaMachineLevelOf(machine, 3, 4) == 1);
  Expect(RengaMachineLevelOf(machine, 7, 8) == 2 && RengaMachineLevelOf(machine, 15, 12) == 0);
  Expect(Near(RengaMachineMessageSeconds(machine, 1, 1e6), 2e-6 + 1e-3));
  /* One replica costs nothing; two in a node exchange halves twice, and add one half. */
  Expect(RengaMachineReduceSeconds(machine, 0, 1, 1e6) == 0);
  Expect(Near(RengaMachineReduceSeconds(machine, 0, 2, 1e6), 2 * (1e-6 + 5e-5) + 1.5e6 / 5e10));
  /* Eight under a switch: a quarter for each of three peers in the node, then an eighth for the one
     of the other. */
  Expect(Near(RengaMachineReduceSeconds(machine, 1, 8, 8e6),
              2 * (3 * (1e-6 + 2e-4) + 2e-6 + 1e-3) + 3e6 * 7 / 5e10));
  /* The same where a device has two pieces for its node, and a node three halves for the other. */
  const RengaSumPieces pieces = {2, 1.5};
  Expect(Near(RengaMachineSumSeconds_Private(machine, 1, 8, 1, 8e6, &pieces),
              3 * (1e-6 + 4e-4) + 2e-6 + 1.5e-3 + 3 * (1e-6 + 2e-4) + 2e-6 + 1e-3 +
                  3 * (12e6 + 1.5e6) / 5e10));
  Expect(RengaMachineNodeReplicas_Private(machine, 1, 8, 1) == 4);
  /* Two, of which one is behind the widest level. */
  Expect(Near(RengaMachineReduceSeconds(machine, 2, 2, 2e6), 2 * (4e-6 + 1e-2) + 3e6 / 5e10));
  RengaCall(RengaMachineSetNodes(machine, 1));
  RengaCall(RengaMachineGetMemory(machine, &wished));
  Expect(wished == 0);
  RengaCall(RengaMachineSetMemory(machine, 1000));
  RengaCall(RengaMachineGetMemory(machine, &wished));
  Expect(wished == 1000);
  RengaCall(RengaMachineGetLevels(machine, &count, &level));
  Expect(count == 1 && level[0].devices == 4);
  const RengaMachineDevice *device;
  RengaCall(RengaMachineGetDevice(machine, &device));
  Expect(device->memory == 1000);
  Expect(device->matrix_rate == 1e12 && device->matrix_rate_bfloat16 == 3e12);
  Expect(device->matrix_rate_float64 == 0 && device->matrix_rate_float16 == 0);
  RengaViewer viewer;
  char *text;
  RengaCall(RengaViewerCreate(comm, "ascii:machine-test.txt", &viewer));
  RengaCall(RengaMachineView(machine, viewer));
  RengaCall(RengaViewerDestroy(&viewer));
  RengaCall(ReadWhole("machine-test.txt", &text));
  Expect(strstr(text, "products of bfloat16: 3 TFLOP/s") && !strstr(text, "float64"));
  Expect(strstr(text, "the host issues a product in 20 us"));
  RengaFree(&text);
  RengaCall(RengaMachineSetNodes(machine, 100));
  RengaCall(RengaMachineGetLevels(machine, &count, &level));
  Expect(count == 3 && level[1].devices == 8 && level[2].devices == 400);
  RengaCall(RengaMachineDestroy(&machine));
  return RENGA_SUCCESS;
}

/* Fewer devices in a node: its levels shrink, its links stay. */
static RengaErrorCode TestDevices(void)
{
  RengaMachine machine;
  int count;
  int64_t devices;
  const RengaMachineLevel *level;
  const bool prints = RengaCommGetRank(comm) == 0;
  RengaCall(RengaMachineCreate(comm, &machine));
  ExpectError(RengaMachineSetDevicesPerNode(machine, -1), RENGA_ERR_ARGUMENT,
              prints ? "nodes of -1 devices" : "");
  RengaCall(RengaMachineSetDevicesPerNode(machine, 8));
  ExpectError(RengaMachineLoad(machine, "small.opts"), RENGA_ERR_ARGUMENT,
              prints ? "-machine_devices 8: a node of small has 4" : "");
  RengaCall(RengaMachineSetDevicesPerNode(machine, 2));
  RengaCall(RengaMachineLoad(machine, "small.opts"));
  ExpectError(RengaMachineSetDevicesPerNode(machine, 5), RENGA_ERR_ARGUMENT,
              prints ? "a node of small has 4" : "");
  RengaCall(RengaMachineGetDevicesPerNode(machine, &devices));
  Expect(devices == 2);
  RengaCall(RengaMachineGetNodes(machine, &devices));
  Expect(devices == 4);
  RengaCall(RengaMachineGetLevels(machine, &count, &level));
  Expect(count == 3 && level[0].devices == 2 && level[1].devices == 4 && level[2].devices == 8);
  Expect(level[0].bandwidth == 1e10 && level[2].bandwidth == 1e8);
  RengaCall(RengaMachineSetDevicesPerNode(machine, 0));
  RengaCall(RengaMachineGetDeviceCount(machine, &devices));
  Expect(devices == 16);
  RengaCall(RengaMachineDestroy(&machine));
  return RENGA_SUCCESS;
}

/* What goes wrong when `from` is written `to` in the good file. */
static const struct {
  const char *from, *to;
  RengaErrorCode code;
  const char *text;
} bad[] = {
    {"-launch", "-lanch", RENGA_ERR_FILE_FORMAT, "did you mean -launch?"},
    {"-nodes 4", "", RENGA_ERR_FILE_FORMAT, "-nodes is missing"},
    {"-nodes 4", "-nodes -4", RENGA_ERR_FILE_FORMAT, "-4"},
    {"-nodes 4", "-nodes 3", RENGA_ERR_FILE_FORMAT, "no multiple"},
    {"-nodes 4", "-nodes 4 -nodes 8", RENGA_ERR_FILE_FORMAT, "twice"},
    {"-nodes 4", "-nodes four", RENGA_ERR_FILE_FORMAT, "four"},
    {"1e12", "1e40", RENGA_ERR_FILE_FORMAT, "1e40"},
    {"-name small", "-name", RENGA_ERR_FILE_FORMAT, "-name needs a value"},
    {"-name small", "", RENGA_ERR_FILE_FORMAT, "-name is missing"},
    {"-name small", "small", RENGA_ERR_FILE_FORMAT, "belongs to no key"},
    {"-switch_bandwidth 1e9", "", RENGA_ERR_FILE_FORMAT, "-switch_bandwidth"},
    {"8GiB", "8 GiB", RENGA_ERR_FILE_FORMAT, "GiB"},
    {"-matrix_efficiency 0.5", "-matrix_efficiency 1.5", RENGA_ERR_FILE_FORMAT, "1.5"},
};

static RengaErrorCode TestBad(void)
{
  for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
    RengaMachine machine;
    char text[2048];
    const char *at = strstr(good, bad[b].from);
    Expect(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, bad[b].to,
             at + strlen(bad[b].from));
    RengaCall(WriteFile("bad.opts", text));
    RengaCall(RengaMachineCreate(comm, &machine));
    const bool prints = RengaCommGetRank(comm) == 0;
    ExpectError(RengaMachineLoad(machine, "bad.opts"), bad[b].code, prints ? bad[b].text : "",
                prints ? "bad.opts" : "");
    RengaCall(RengaMachineDestroy(&machine));
    RengaCall(RengaCommBarrier(comm, "test"));
  }
  return RENGA_SUCCESS;
}

static RengaErrorCode TestMissing(void)
{
  RengaMachine machine;
  const RengaMachineDevice *device;
  const bool prints = RengaCommGetRank(comm) == 0;
  RengaCall(RengaMachineCreate(comm, &machine));
  ExpectError(RengaMachineLoad(machine, "h20"), RENGA_ERR_FILE_OPEN,
              prints ? "did you mean h200?" : "", prints ? "stampede2" : "");
  ExpectError(RengaMachineLoad(machine, "./none.opts"), RENGA_ERR_FILE_OPEN,
              prints ? "./none.opts" : "");
  ExpectError(RengaMachineGetDevice(machine, &device), RENGA_ERR_ORDER, prints ? "" : "");
  RengaCall(RengaMachineDestroy(&machine));
  return RENGA_SUCCESS;
}

static RengaErrorCode TestOptions(void)
{
  RengaMachine machine;
  int count;
  const int64_t *nodes;
  int64_t devices;
  RengaCall(RengaOptionsSetValue("machine_file", "dgx-a100"));
  RengaCall(RengaOptionsSetValue("machine_nodes", "4,8,16"));
  RengaCall(RengaOptionsSetValue("machine_devices", "6"));
  RengaCall(RengaOptionsSetValue("machine_memory", "40GB"));
  RengaCall(RengaMachineCreate(comm, &machine));
  RengaCall(RengaMachineSetFromOptions(machine));
  RengaCall(RengaMachineGetNodeCounts(machine, &count, &nodes));
  Expect(count == 3 && nodes[0] == 4 && nodes[2] == 16);
  RengaCall(RengaMachineGetDeviceCount(machine, &devices));
  Expect(devices == 24);
  ExpectError(RengaOptionsSetValue("machine_devices", "0"), RENGA_ERR_OPTION,
              RengaCommGetRank(comm) == 0 ? "machine_devices 0" : "");
  RengaCall(RengaOptionsSetValue("machine_nodes", "4;8"));
  ExpectError(RengaMachineSetFromOptions(machine), RENGA_ERR_OPTION,
              RengaCommGetRank(comm) == 0 ? "4;8" : "");
  RengaCall(RengaMachineDestroy(&machine));
  return RENGA_SUCCESS;
}

static const char kinds[] =
    "-name mixed -devices 2 -vector_rate 1e11 -memory_bandwidth 1e11\n"
    "-matrix_efficiency 0.5 -vector_efficiency 0.5 -bandwidth_efficiency 0.5 -launch 1e-6\n"
    "-node_latency 1e-6 -node_bandwidth 1e10 -cluster_latency 4e-6 -cluster_bandwidth 1e8\n";

static RengaErrorCode ExpectBadKinds(RengaMachine machine, const char *sections,
                                     RengaErrorCode expected, const char *message)
{
  char text[2048];
  snprintf(text, sizeof text, "%s%s", kinds, sections);
  RengaCall(WriteFile("bad.opts", text));
  ExpectError(RengaMachineLoad(machine, "bad.opts"), expected,
              RengaCommGetRank(comm) == 0 ? message : "");
  return RENGA_SUCCESS;
}

/* Sections of a file. */
static RengaErrorCode TestKinds(void)
{
  static const char two[] = "-kind fast -nodes 1 -memory 8GiB -matrix_rate 4e12\n"
                            "-kind slow -nodes 2 -memory 4GiB -matrix_rate 1e12 -devices 1\n";
  RengaMachine machine;
  const RengaMachineDevice *device;
  const int64_t *begin;
  int64_t number;
  char text[2048];
  int count;
  snprintf(text, sizeof text, "%s%s", kinds, two);
  RengaCall(WriteFile("small.opts", text));
  RengaCall(RengaMachineCreate(comm, &machine));
  RengaCall(RengaMachineLoad(machine, "small.opts"));
  RengaCall(RengaMachineGetKinds(machine, &count, &device, &begin));
  Expect(count == 2 && begin[0] == 0 && begin[1] == 2 && begin[2] == 4);
  Expect(!strcmp(device[0].name, "fast") && !strcmp(device[1].name, "slow"));
  Expect(device[0].matrix_rate == 4e12 && device[1].matrix_rate == 1e12);
  Expect(device[1].memory == (int64_t)4 << 30 && device[1].vector_rate == 1e11);
  RengaCall(RengaMachineGetNodes(machine, &number));
  Expect(number == 3 && RengaMachineLevelOf(machine, 2, 3) == 1);
  ExpectError(RengaMachineSetNodes(machine, 2), RENGA_ERR_ARGUMENT,
              RengaCommGetRank(comm) == 0 ? "has 3 nodes of 2 kinds" : "");
  ExpectError(RengaMachineSetDevicesPerNode(machine, 2), RENGA_ERR_ARGUMENT,
              RengaCommGetRank(comm) == 0 ? "kind slow has 1" : "");
  RengaCall(RengaMachineSetDevicesPerNode(machine, 1));
  RengaCall(RengaMachineGetKinds(machine, &count, &device, &begin));
  Expect(count == 2 && begin[1] == 1 && begin[2] == 3);
  RengaCall(RengaMachineSetDevicesPerNode(machine, 0));
  RengaCall(RengaMachineGetKinds(machine, &count, &device, &begin));
  const RengaMachineDevice three[] = {device[0], device[1], device[0]};
  const int64_t good_begin[] = {0, 2, 3, 4}, bad_begin[] = {0, 1, 3, 4};
  RengaCall(RengaMachineSetKinds(machine, 3, three, good_begin));
  RengaCall(RengaMachineGetKinds(machine, &count, &device, &begin));
  Expect(count == 3 && begin[2] == 3);
  ExpectError(RengaMachineSetKinds(machine, 3, three, bad_begin), RENGA_ERR_ARGUMENT,
              RengaCommGetRank(comm) == 0 ? "kinds have whole nodes" : "");
  RengaCall(ExpectBadKinds(machine, "-kind a -nodes 1 -memory 8GiB -matrix_rate 1e12 -speed 3",
                           RENGA_ERR_FILE_FORMAT, "-kind a: unknown key -speed"));
  RengaCall(ExpectBadKinds(machine, "-kind a -nodes 1 -memory 8GiB", RENGA_ERR_FILE_FORMAT,
                           "-kind a: -matrix_rate is missing"));
  RengaCall(ExpectBadKinds(machine, "-nodes 3 -kind a -nodes 2 -memory 8GiB -matrix_rate 1e12",
                           RENGA_ERR_FILE_FORMAT, "its 1 kinds are 2, and -nodes before them"));
  RengaCall(ExpectBadKinds(machine,
                           "-kind a -nodes 1 -memory 8GiB -matrix_rate 1e12 -node_latency 1",
                           RENGA_ERR_FILE_FORMAT, "-node_latency holds for all sections"));
  RengaCall(RengaMachineDestroy(&machine));
  return RENGA_SUCCESS;
}

/* Described by the program. */
static RengaErrorCode TestProgram(void)
{
  RengaMachine machine;
  int64_t nodes;
  RengaMachineDevice device = {.name = "mine",
                               .memory = 1 << 30,
                               .matrix_rate = 1e12,
                               .vector_rate = 1e11,
                               .memory_bandwidth = 1e11,
                               .matrix_efficiency = 1,
                               .vector_efficiency = 1,
                               .bandwidth_efficiency = 1,
                               .launch = 0};
  const RengaMachineLevel level[] = {
      {.name = "node", .devices = 2, .latency = 1e-6, .bandwidth = 1e10},
      {.name = "cluster", .devices = 6, .latency = 1e-5, .bandwidth = 1e9, .nested = true}};
  RengaMachineLevel wrong[] = {level[0], level[1]};
  RengaCall(RengaMachineCreate(comm, &machine));
  RengaCall(RengaMachineSetDevice(machine, &device));
  RengaCall(RengaMachineSetLevels(machine, 2, level));
  RengaCall(RengaMachineGetNodes(machine, &nodes));
  Expect(nodes == 3);
  /* Two in each of three nodes: a half within the node, of which two thirds leave it; and back. */
  Expect(Near(RengaMachineReduceSeconds(machine, 1, 6, 6e6),
              2 * (1e-6 + 3e-4 + 2e-5 + 2e-3) + 3 * (3e6 + 2e6) / 1e11));
  wrong[1].devices = 6;
  wrong[1].reduce_hidden = 0.75;
  RengaCall(RengaMachineSetLevels(machine, 2, wrong));
  Expect(Near(RengaMachineReduceSeconds(machine, 1, 6, 6e6),
              (2 * (1e-6 + 3e-4 + 2e-5 + 2e-3) + 3 * (3e6 + 2e6) / 1e11) / 4));
  const int64_t unequal[] = {0, 1, 3, 5}, larger[] = {0, 1, 4, 5}, *begin;
  int islands;
  RengaCall(RengaMachineSetIslands(machine, 3, unequal));
  RengaCall(RengaMachineGetIslands(machine, &islands, &begin));
  Expect(islands == 3 && begin[1] == 1 && begin[2] == 3 && begin[3] == 5);
  RengaCall(RengaMachineGetDeviceCount(machine, &nodes));
  Expect(nodes == 5);
  RengaCall(RengaMachineGetNodes(machine, &nodes));
  Expect(nodes == 3);
  Expect(RengaMachineLevelOf(machine, 0, 1) == 1 && RengaMachineLevelOf(machine, 1, 2) == 0);
  Expect(RengaMachineLevelOf(machine, 2, 3) == 1 && RengaMachineLevelOf(machine, 3, 4) == 0);
  ExpectError(RengaMachineSetIslands(machine, 3, larger), RENGA_ERR_ARGUMENT, "");
  RengaCall(RengaMachineSetIslands(machine, 0, NULL));
  RengaCall(RengaMachineGetIslands(machine, &islands, &begin));
  Expect(islands == 0 && begin == NULL);
  wrong[1].devices = 5;
  ExpectError(RengaMachineSetLevels(machine, 2, wrong), RENGA_ERR_ARGUMENT, "");
  ExpectError(RengaMachineSetNodes(machine, 2), RENGA_ERR_ORDER, "");
  ExpectError(RengaMachineSetDevicesPerNode(machine, 1), RENGA_ERR_ORDER, "");
  RengaCall(RengaMachineDestroy(&machine));
  return RENGA_SUCCESS;
}

static RengaErrorCode Run(void)
{
  RengaCall(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCall(TestShipped());
  RengaCall(TestLevels());
  RengaCall(TestDevices());
  RengaCall(TestBad());
  RengaCall(TestMissing());
  RengaCall(TestKinds());
  RengaCall(TestProgram());
  RengaCall(TestOptions());
  if (RengaCommGetRank(comm) == 0) {
    unlink("small.opts");
    unlink("bad.opts");
  }
  RengaCall(RengaCommDestroy(&comm));
  return RENGA_SUCCESS;
}

TEST_MAIN(Run)

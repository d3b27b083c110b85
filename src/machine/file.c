/* Machine files: one machine each, in the form of an options file with the keys below. What is
   known of the machine, and from where, stands in the file's comments. */
#include "machineimpl.h"
#include "renga/private/wait.h"
#include <dirent.h>
#include <string.h>
#include <unistd.h>

#define AT(member) offsetof(MachineFile, member)
#define NUMBER(name, member, value, low, high, help)                                               \
  {                                                                                                \
    name, RENGA_OPTION_REAL, value, AT(member), NULL, low, high, help                              \
  }
/* A row without a default must be in the file. The first N_SHARED are those of all kinds of
   devices; the next N_OWN each kind has for itself. */
enum { N_SHARED = 16, N_OWN = 2 };
static const RengaOptionRow rows[] = {
    {"name", RENGA_OPTION_STRING, NULL, AT(name), NULL, 0, 0, "what the machine is called"},
    {"islands", RENGA_OPTION_STRING, "", AT(islands), NULL, 0, 0,
     "devices of each node, where they are unequal: 4,2,2"},
    NUMBER("node_latency", latency[0], NULL, 0, 10, "seconds of a message within a node"),
    NUMBER("node_bandwidth", bandwidth[0], NULL, 1e3, 1e15,
           "bytes/s of a device to another of its node"),
    {"switch_nodes", RENGA_OPTION_INT64, "0", AT(network.switch_nodes), NULL, 0, 1e8,
     "nodes under one switch, where there are several; 0: there is no such level"},
    NUMBER("switch_latency", latency[1], "0", 0, 10, "seconds of a message under a switch"),
    NUMBER("switch_bandwidth", bandwidth[1], "0", 0, 1e15,
           "bytes/s of a device to one of another node under the switch"),
    NUMBER("cluster_latency", latency[2], NULL, 0, 10, "seconds of a message between nodes"),
    NUMBER("cluster_bandwidth", bandwidth[2], NULL, 1e3, 1e15,
           "bytes/s of a device to one of another node while all its node's devices send"),
    {"cards", RENGA_OPTION_INT64, "0", AT(network.cards), NULL, 0, 1e5,
     "network cards of a node, dealt to its devices in turn; 0: simulations share none"},
    NUMBER("card_bandwidth", network.card_bandwidth, "0", 0, 1e15,
           "bytes/s of a network card, in each direction"),
    NUMBER("uplink_bandwidth", network.uplink_bandwidth, "0", 0, 1e16,
           "bytes/s of all links together from a switch to others, in each direction; 0: enough"),
    {"nested", RENGA_OPTION_BOOL, "false", AT(nested), NULL, 0, 0,
     "collectives of tensor-parallel ranks between nodes are made within each node first"},
    NUMBER("reduce_hidden", reduce_hidden, "0", 0, 1,
           "share of sums over replicas in which devices compute"),
    NUMBER("exchange_hidden", exchange_hidden, "0", 0, 1,
           "share of collectives of tensor-parallel ranks in which devices compute"),
    NUMBER("all_reduce", all_reduce, "0", 0, 10,
           "seconds of a sum of tensor-parallel ranks besides its bytes, where it is an "
           "all-reduce; 0: terms are cut, exchanged and added"),
    {"kind", RENGA_OPTION_STRING, "", AT(kind), NULL, 0, 0,
     "begins what holds for the next nodes alone, and names their devices"},
    {"nodes", RENGA_OPTION_INT64, NULL, AT(nodes), NULL, 1, 1e8, "nodes of the machine"},
    {"devices", RENGA_OPTION_INT64, NULL, AT(devices), NULL, 1, 1e5, "devices of a node"},
    {"memory", RENGA_OPTION_BYTES, NULL, AT(memory), NULL, 0x1p20, 0x1p50,
     "bytes of a device that a rank may use"},
    NUMBER("matrix_rate", matrix_rate, NULL, 1e6, 1e18,
           "peak FLOP/s of a device in matrix products and convolutions, float32"),
    NUMBER("matrix_rate_float64", matrix_rate_float64, "0", 0, 1e18,
           "the same of float64 values; 0: not known"),
    NUMBER("matrix_rate_bfloat16", matrix_rate_bfloat16, "0", 0, 1e18,
           "the same of bfloat16 values; 0: not known"),
    NUMBER("matrix_rate_float16", matrix_rate_float16, "0", 0, 1e18,
           "the same of float16 values; 0: not known"),
    NUMBER("matrix_rate_tf32", matrix_rate_tf32, "0", 0, 1e18,
           "the same of float32 values in -precision tf32; 0: not known"),
    NUMBER("matrix_rate_fp8", matrix_rate_fp8, "0", 0, 1e18,
           "the same of linear layers in -precision fp8; 0: not known"),
    NUMBER("vector_rate", vector_rate, NULL, 1e6, 1e18, "peak FLOP/s of a device in all else"),
    NUMBER("memory_bandwidth", memory_bandwidth, NULL, 1e6, 1e15, "peak bytes/s of its memory"),
    NUMBER("matrix_efficiency", matrix_efficiency, NULL, 0.001, 1,
           "share of matrix_rate that is reached"),
    NUMBER("vector_efficiency", vector_efficiency, NULL, 0.001, 1,
           "share of vector_rate that is reached"),
    NUMBER("bandwidth_efficiency", bandwidth_efficiency, NULL, 0.001, 1,
           "share of memory_bandwidth that is reached"),
    NUMBER("host", host, "0", 0, 1,
           "seconds between products that a host issues, with what goes with them"),
    NUMBER("unaligned_efficiency", unaligned_efficiency, "0", 0, 1,
           "share of matrix_rate in products with rows that are no multiple of 4 bytes; 0: "
           "matrix_efficiency"),
    NUMBER("scatter_efficiency", scatter_efficiency, "0", 0, 1,
           "share of memory_bandwidth in gradients of looked-up rows; 0: bandwidth_efficiency"),
    NUMBER("half_depth", half_depth, "0", 0, 1e6,
           "terms of each element of a product with which it reaches half of its rate"),
    {"processors", RENGA_OPTION_INT64, "0", AT(processors), NULL, 0, 1e6,
     "multiprocessors that tiles of a product are dealt to; 0: its shape does not matter"},
    {"accumulates", RENGA_OPTION_BOOL, "false", AT(accumulates), NULL, 0, 0,
     "products add gradients to those of the micro-batches before"},
    NUMBER("attention_efficiency", attention_efficiency, "0", 0, 1,
           "share of matrix_rate that attention reaches; 0: matrix_efficiency"),
    NUMBER("attention_passes", attention_passes, "0", 0, 1000,
           "how often a forward of attention reads or writes all its scores; 0: fused kernels"),
    NUMBER("spread", spread, "0", 0, 1,
           "standard deviation of devices' seconds for the same work, as a share"),
    NUMBER("launch", launch, NULL, 0, 1, "seconds that a kernel costs besides its work"),
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static RengaErrorCode FreeFileStrings(MachineFile file[])
{
  for (int k = 0; k <= RENGA_MACHINE_KINDS_MOST; k++)
    RengaCall(RengaOptionsFreeStrings(N_ROWS, rows, &file[k]));
  return RENGA_SUCCESS;
}

RengaErrorCode RengaMachineFreeFile_Private(RengaMachine machine)
{
  RengaCall(FreeFileStrings(machine->file));
  return RENGA_SUCCESS;
}

static RengaErrorCode AddLevel(RengaMachine machine, const char *name, int64_t devices, int key)
{
  RengaMachineLevel *level = &machine->level[machine->n_levels];
  RengaFree(&machine->name[machine->n_levels]);
  RengaCall(RengaStringCopy(name, &machine->name[machine->n_levels]));
  *level = (RengaMachineLevel){.name = machine->name[machine->n_levels],
                               .devices = devices,
                               .latency = machine->file->latency[key],
                               .bandwidth = machine->file->bandwidth[key],
                               .nested = machine->file->nested,
                               .reduce_hidden = machine->file->reduce_hidden,
                               .exchange_hidden = machine->file->exchange_hidden};
  machine->n_levels++;
  return RENGA_SUCCESS;
}

/* A level appears only where it has more than one group of the level below. */
RengaErrorCode RengaMachineBuild_Private(RengaMachine machine)
{
  const MachineFile *file = machine->file;
  const int64_t nodes = machine->nodes > 0 ? machine->nodes : file->nodes;
  const int64_t devices = machine->devices > 0 ? machine->devices : file->devices;
  const int64_t shared = file->network.switch_nodes;
  RengaFree(&machine->device_name);
  machine->device = RengaMachineDeviceOf_Private(machine, file);
  RengaCall(RengaStringCopy(file->name, &machine->device_name));
  machine->device.name = machine->device_name;
  machine->n_levels = 0;
  RengaFree(&machine->island);
  machine->n_islands = 0;
  RengaCall(AddLevel(machine, "node", devices, 0));
  if (shared > 1 && nodes > 1)
    RengaCall(AddLevel(machine, "switch", (nodes < shared ? nodes : shared) * devices, 1));
  if (nodes > 1 && (shared <= 1 || nodes > shared))
    RengaCall(AddLevel(machine, "cluster", nodes * devices, 2));
  machine->network = file->network;
  machine->hdr.state = RENGA_STATE_SETUP;
  RengaCall(RengaMachineReadIslands_Private(machine, file->islands));
  RengaCall(RengaMachineBuildKinds_Private(machine));
  return RENGA_SUCCESS;
}

/* Rank 0 looks; length of the found path, 0: there is none. */
static int FindMachinePath(const char *name, size_t size, char path[])
{
  const size_t length = strlen(name);
  const bool is_path = strchr(name, '/') || (length > 5 && !strcmp(name + length - 5, ".opts"));
  if (is_path) return snprintf(path, size, "%s", name);
  for (int f = 0; RengaMachineFolders_Private[f]; f++) {
    const int used = snprintf(path, size, "%s/%s.opts", RengaMachineFolders_Private[f], name);
    if (used < (int)size && access(path, R_OK) == 0) return used;
  }
  return 0;
}

enum { MOST_NAMES = 256, NAME_LENGTH = 64 };

/* The names there are, for the message. */
static int ListMachineNames(char text[][NAME_LENGTH])
{
  int count = 0;
  for (int f = 0; RengaMachineFolders_Private[f] && count == 0; f++) {
    DIR *folder = opendir(RengaMachineFolders_Private[f]);
    for (struct dirent *entry; folder && count < MOST_NAMES && (entry = readdir(folder)) != NULL;) {
      const size_t length = strlen(entry->d_name);
      if (length <= 5 || length >= NAME_LENGTH || strcmp(entry->d_name + length - 5, ".opts"))
        continue;
      snprintf(text[count++], NAME_LENGTH, "%.*s", (int)length - 5, entry->d_name);
    }
    if (folder) closedir(folder);
  }
  return count;
}

static RengaErrorCode ReportUnknownMachine(const char *name)
{
  char text[MOST_NAMES][NAME_LENGTH], list[1024] = "";
  const char *names[MOST_NAMES];
  const int count = ListMachineNames(text);
  size_t used = 0;
  for (int i = 0; i < count; i++) {
    names[i] = text[i];
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", text[i]);
    if (used >= sizeof list) break;
  }
  const char *closest = RengaClosestName(name, count, names);
  RengaRaise(MPI_COMM_SELF, RENGA_ERR_FILE_OPEN,
             "there is no machine \"%s\"%s%s%s; there are %s, or give the path of a file", name,
             closest ? "; did you mean " : "", closest ? closest : "", closest ? "?" : "",
             count ? list : "none in the library's folder");
}

static RengaErrorCode FindMachineFile(RengaMachine machine, const char *name, int size, char path[])
{
  int rank;
  RengaErrorCode code = RENGA_SUCCESS;
  RengaCallMPI(MPI_Comm_rank(machine->hdr.comm, &rank));
  if (rank == 0 && FindMachinePath(name, (size_t)size, path) == 0)
    code = ReportUnknownMachine(name);
  RengaCall(RengaErrorAgree(machine->hdr.comm, code));
  RengaCall(RengaBroadcast_Private(machine->hdr.comm, path, (size_t)size,
                                   "rank 0 to find the machine's file"));
  return RENGA_SUCCESS;
}

static RengaErrorCode CheckMachineFile(RengaMachine machine, const char *path,
                                       const MachineFile file[])
{
  RengaCheck(file->name && file->name[0], machine->hdr.comm, RENGA_ERR_FILE_FORMAT,
             "%s: -name is missing: what the machine is called", path);
  RengaCheck(file->network.switch_nodes == 0 || file->bandwidth[1] >= 1e3, machine->hdr.comm,
             RENGA_ERR_FILE_FORMAT,
             "%s: -switch_nodes %lld needs -switch_latency and -switch_bandwidth", path,
             (long long)file->network.switch_nodes);
  RengaCheck(file->network.switch_nodes < 2 || file->nodes <= file->network.switch_nodes ||
                 file->nodes % file->network.switch_nodes == 0,
             machine->hdr.comm, RENGA_ERR_FILE_FORMAT,
             "%s: -nodes %lld is no multiple of -switch_nodes %lld", path, (long long)file->nodes,
             (long long)file->network.switch_nodes);
  RengaCheck(file->network.cards == 0 || file->network.card_bandwidth >= 1e3, machine->hdr.comm,
             RENGA_ERR_FILE_FORMAT, "%s: -cards %lld needs -card_bandwidth", path,
             (long long)file->network.cards);
  RengaCheck(file->network.uplink_bandwidth == 0 ||
                 (file->network.cards > 0 && file->network.switch_nodes > 0),
             machine->hdr.comm, RENGA_ERR_FILE_FORMAT,
             "%s: -uplink_bandwidth needs -switch_nodes and -cards", path);
  RengaCall(RengaMachineCheckWishes_Private(machine, file, machine->nodes, machine->devices));
  return RENGA_SUCCESS;
}

/*@
   RengaMachineLoad - describe the machine by a file

   Collective

   Input:
   . file - a name of share/renga/machines without its ending, or the path of such a file

   Options:
   . -machine_file - the same

   Errors: RENGA_ERR_FILE_OPEN where there is no such file or machine; RENGA_ERR_FILE_FORMAT with
   what is wrong in the file; RENGA_ERR_ARGUMENT where its nodes have fewer devices than asked for.

   Notes: the form is that of an options file, with the keys name, nodes, devices (of a node),
   memory (bytes of a device), matrix_rate, vector_rate (FLOP/s), memory_bandwidth (bytes/s),
   matrix_efficiency, vector_efficiency, bandwidth_efficiency (shares that are reached), launch
   (seconds), node_latency, node_bandwidth, cluster_latency, cluster_bandwidth (seconds, bytes/s)
   and, for nodes under several switches, switch_nodes, switch_latency, switch_bandwidth; cards,
   card_bandwidth and uplink_bandwidth, which simulated steps share; islands, the devices of each
   node, where they are unequal; where they are known,
   matrix_rate_float64, matrix_rate_bfloat16, matrix_rate_float16, matrix_rate_tf32,
   matrix_rate_fp8; host, where it issues products too slowly for devices; half_depth, processors
   and unaligned_efficiency, by which the shape of a product decides its rate; scatter_efficiency,
   of gradients of looked-up rows; accumulates, where products add gradients up;
   attention_efficiency; attention_passes, where kernels of attention are not fused; spread, of
   devices; nested, all_reduce, reduce_hidden and exchange_hidden, of sums over replicas and
   tensor-parallel
   collectives. A missing or unknown key and a value out of all bounds are errors. What
   RengaMachineSetNodes(),
   RengaMachineSetDevicesPerNode() and RengaMachineSetMemory() ask for is kept.

   A key kind with a name begins a section, which holds for the next nodes alone: it says how many
   they are, and what of devices (memory, rates, efficiencies, launch, devices of a node) is not
   written before the first section. Names, links and the network are those of all. Nodes are
   numbered in the order of sections.

   See also: RengaMachineSetFromOptions(), RengaMachineSetNodes()
@*/
RengaErrorCode RengaMachineLoad(RengaMachine machine, const char *file)
{
  enum { N_FILES = 1 + RENGA_MACHINE_KINDS_MOST };
  const RengaOptionTable table = {.count = N_ROWS,
                                  .rows = rows,
                                  .key = "kind",
                                  .most = RENGA_MACHINE_KINDS_MOST,
                                  .shared = N_SHARED,
                                  .own = N_OWN,
                                  .size = sizeof(MachineFile)};
  char path[4096] = "";
  MachineFile read[N_FILES] = {{0}};
  int kinds = 0;
  RengaCheckPointers(machine, file);
  RengaCall(FindMachineFile(machine, file, (int)sizeof path, path));
  RengaErrorCode code =
      RengaOptionsReadSections_Private(machine->hdr.comm, path, &table, read, &kinds);
  if (!code) code = RengaMachineCountKinds_Private(machine, path, kinds, read);
  if (!code) code = CheckMachineFile(machine, path, read);
  if (code) FreeFileStrings(read);
  RengaCall(code);
  RengaCall(RengaMachineFreeFile_Private(machine));
  memcpy(machine->file, read, sizeof read);
  RengaCall(RengaErrorAgree(machine->hdr.comm, RengaMachineBuild_Private(machine)));
  return RENGA_SUCCESS;
}

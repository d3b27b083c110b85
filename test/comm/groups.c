/* TEST ranks: 1 2 3 4 8 */
/* Communicators of users of any kind, groups, nodes, the view. */
#include "commtest.h"
#include "renga/private/fault.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void CheckNode(RengaComm comm)
{
  int node, nodes, local_rank, local_size;
  RengaCallAbort(RengaCommGetNode(comm, &node, &nodes, &local_rank, &local_size));
  TestTrue(nodes == 1 && node == 0);
  TestTrue(local_rank == RengaCommGetRank(comm) && local_size == RengaCommGetSize(comm));
  RengaCallAbort(RengaCommGetNode(comm, NULL, NULL, NULL, NULL));
}

static void CheckGroups(RengaComm comm)
{
  int rank = RengaCommGetRank(comm), size = RengaCommGetSize(comm);
  RengaComm group, again;
  double seconds;
  RengaCallAbort(RengaCommSetTimeout(comm, 77));
  /* odd ranks in reverse order; even ranks but 0 in a group of their own; 0 in none */
  RengaCallAbort(RengaCommSplit(comm, rank == 0 ? -1 : rank % 2, rank % 2 ? -rank : rank, &group));
  TestTrue((group == NULL) == (rank == 0));
  if (group != NULL) {
    int odd = size / 2, even = (size + 1) / 2;
    TestTrue(RengaCommGetSize(group) == (rank % 2 ? odd : even - 1));
    TestTrue(RengaCommGetRank(group) == (rank % 2 ? odd - 1 - rank / 2 : rank / 2 - 1));
    RengaCallAbort(RengaCommGetTimeout(group, &seconds));
    TestTrue(seconds == 77);
    CheckNode(group);
    int64_t sum = rank;
    RengaCallAbort(RengaCommSumInt64(group, 1, &sum, "the group"));
    int64_t expected = 0;
    for (int r = 1; r < size; r++) expected += r % 2 == rank % 2 ? r : 0;
    TestTrue(sum == expected);
    RengaCallAbort(RengaCommSplit(group, 0, 0, &again));
    TestTrue(RengaCommGetSize(again) == RengaCommGetSize(group));
    RengaCallAbort(RengaCommDestroy(&group));
    TestTrue(group == NULL);
    RengaCallAbort(RengaCommDestroy(&again));
  }
  TestError(RengaCommSplit(comm, -2, 0, &group), RENGA_ERR_ARGUMENT);
  TestError(RengaCommSetTimeout(comm, -1), RENGA_ERR_ARGUMENT);
}

/* A communicator of our own making with the ranks in reverse order and one of them left out. */
static void CheckUser(void)
{
  int rank, size;
  MPI_Comm user;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_split(MPI_COMM_WORLD, rank == 1 ? MPI_UNDEFINED : 5, -rank, &user);
  RengaComm comm;
  if (rank == 1) {
    TestError(RengaCommCreate(user, &comm), RENGA_ERR_ARGUMENT);
    return;
  }
  RengaCallAbort(RengaCommCreate(user, &comm));
  MPI_Comm_free(&user);
  TestTrue(RengaCommGetSize(comm) == (size > 1 ? size - 1 : 1));
  CheckNode(comm);
  RengaCallAbort(RengaCommBarrier(comm, "the ranks in reverse order"));
  RengaCallAbort(RengaCommDestroy(&comm));
}

static void CheckView(RengaComm comm)
{
  RengaViewer viewer;
  char name[64], line[256] = "", expected[64];
  int rank, size = RengaCommGetSize(comm);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(name, sizeof name, "ascii:groups-%d.tmp", size);
  RengaCallAbort(RengaViewerCreate(comm, name, &viewer));
  if (RengaCommGetRank(comm) == 0) RengaFaultSet(RENGA_FAULT_ALLOCATION, 1); /* no rank waits */
  TestError(RengaCommView(comm, viewer), RENGA_ERR_MEMORY);
  RengaFaultSet(RENGA_FAULT_ALLOCATION, 0);
  RengaCallAbort(RengaCommView(comm, viewer));
  RengaCallAbort(RengaViewerDestroy(&viewer));
  if (rank != 0) return;
  FILE *file = fopen(name + 6, "r");
  TestTrue(file != NULL && fgets(line, sizeof line, file) != NULL);
  snprintf(expected, sizeof expected, "Comm: %d rank%s on 1 node,", size, size == 1 ? "" : "s");
  TestTrue(strncmp(line, expected, strlen(expected)) == 0);
  TestTrue(fgets(line, sizeof line, file) != NULL);
  snprintf(expected, sizeof expected, size > 1 ? "ranks 0-%d\n" : "ranks %d\n", size - 1);
  TestTrue(strlen(line) > strlen(expected) &&
           strcmp(line + strlen(line) - strlen(expected), expected) == 0);
  fclose(file);
  remove(name + 6);
}

/* Below a folder that stands for /sys: a card of InfiniBand, one of RoCE that is down, Slingshot,
   and an interface that is not named beside them. */
static const struct {
  const char *path, *text;
} hardware[] = {
    {"class/infiniband/mlx5_0/device/numa_node", "1"},
    {"class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand"},
    {"class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)"},
    {"class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE"},
    {"class/infiniband/mlx5_1/ports/1/link_layer", "Ethernet"},
    {"class/infiniband/mlx5_1/ports/1/rate", "100 Gb/sec (4X EDR)"},
    {"class/infiniband/mlx5_1/ports/1/state", "1: DOWN"},
    {"class/infiniband/mlx5_1/ports/1/gid_attrs/types/0", "IB/RoCE v1"},
    {"class/infiniband/mlx5_1/ports/1/gid_attrs/types/1", "RoCE v2"},
    {"class/cxi/cxi0/uevent", ""},
    {"class/net/hsn0/operstate", "up"},
    {"class/net/hsn0/speed", "200000"},
    {"class/net/eth0/operstate", "up"},
    {"class/net/eth0/speed", "1000"},
    {"bus/pci/drivers/nvidia-nvswitch/0000:05:00.0", ""},
    {"devices/system/cpu/cpu0/topology/physical_package_id", "1"},
};
enum { N_HARDWARE = sizeof hardware / sizeof *hardware };

static void MakeHardware(const char *root, bool makes)
{
  for (int i = 0; i < N_HARDWARE; i++) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, hardware[i].path);
    for (char *at = strchr(path, '/'); makes && at; at = strchr(at + 1, '/')) {
      *at = '\0';
      mkdir(path, 0755);
      *at = '/';
    }
    FILE *file = makes ? fopen(path, "w") : NULL;
    TestTrue(!makes || (file && fprintf(file, "%s\n", hardware[i].text) > 0 && !fclose(file)));
    if (!makes) remove(path);
  }
  for (int i = N_HARDWARE - 1; !makes && i >= 0; i--) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, hardware[i].path);
    for (char *at; (at = strrchr(path, '/')) != NULL; remove(path)) *at = '\0';
  }
}

static void CheckHardware(RengaComm comm)
{
  static const char *const said[] = {
      "mlx5_0 port 1: InfiniBand, 200 Gb/sec (4X HDR), ACTIVE, NUMA node 1 (class/infiniband/",
      "mlx5_1 port 1: RoCE v2, 100 Gb/sec (4X EDR), DOWN (class/infiniband/mlx5_1)\n",
      "hsn0: Slingshot, 200 Gb/s, up (class/net/hsn0)\n", "NVLink: 1 NVSwitch (bus/pci/"};
  RengaViewer viewer;
  char root[64], name[64], text[4096] = "";
  const int size = RengaCommGetSize(comm);
  const bool first = RengaCommGetRank(comm) == 0;
  snprintf(root, sizeof root, "sys-%d.tmp", size);
  snprintf(name, sizeof name, "ascii:hardware-%d.tmp", size);
  if (first) MakeHardware(root, true);
  RengaCallAbort(RengaCommBarrier(comm, "test"));
  setenv("RENGA_SYS", root, 1);
  RengaCallAbort(RengaViewerCreate(comm, name, &viewer));
  RengaCallAbort(RengaCommView(comm, viewer));
  RengaCallAbort(RengaViewerDestroy(&viewer));
  unsetenv("RENGA_SYS");
  if (!first) return;
  FILE *file = fopen(name + 6, "r");
  TestTrue(file != NULL && fread(text, 1, sizeof text - 1, file) > 0);
  fclose(file);
  for (size_t i = 0; i < sizeof said / sizeof *said; i++) TestTrue(strstr(text, said[i]) != NULL);
  TestTrue(!strstr(text, "eth0"));
  TestTrue(!strstr(text, "sockets: ") || strstr(text, " on 1 (physical_package_id"));
  remove(name + 6);
  MakeHardware(root, false);
}

/* Nodes that a launcher deals to two switches in turn stand switch after switch. */
static void CheckSwitches(void)
{
  RengaComm comm;
  RengaViewer viewer;
  char text[64];
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  snprintf(text, sizeof text, "top.leaf%d.node%d", rank % 2, rank);
  setenv("RENGA_NODES", "8", 1);
  setenv("SLURM_TOPOLOGY_ADDR", text, 1);
  RengaCallAbort(RengaCommCreate(MPI_COMM_WORLD, &comm));
  TestTrue(RengaCommGetRank(comm) == (rank % 2 ? (size + 1) / 2 : 0) + rank / 2);
  snprintf(text, sizeof text, "ascii:switches-%d.tmp", size);
  RengaCallAbort(RengaViewerCreate(comm, text, &viewer));
  RengaCallAbort(RengaCommView(comm, viewer));
  RengaCallAbort(RengaViewerDestroy(&viewer));
  if (rank == 0) {
    char line[512] = "";
    FILE *file = fopen(text + 6, "r");
    for (int i = 0; i < 2; i++) TestTrue(file != NULL && fgets(line, sizeof line, file) != NULL);
    TestTrue(strstr(line, "ranks 0, switch top.leaf0 (SLURM_TOPOLOGY_ADDR)\n"));
    fclose(file);
    remove(text + 6);
  }
  RengaCallAbort(RengaCommDestroy(&comm));
  unsetenv("RENGA_NODES");
  unsetenv("SLURM_TOPOLOGY_ADDR");
}

/* The number that Fortran has for a communicator makes the same group of ranks. */
static void CheckFortran(void)
{
  RengaComm comm;
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  RengaCallAbort(RengaCommCreateFortran(MPI_Comm_c2f(MPI_COMM_WORLD), &comm));
  TestTrue(RengaCommGetRank(comm) == rank && RengaCommGetSize(comm) == size);
  RengaCallAbort(RengaCommDestroy(&comm));
}

int main(int argc, char **argv)
{
  RengaComm comm;
  MPI_Init(&argc, &argv);
  RengaCallAbort(RengaSetWorldFortran(MPI_Comm_c2f(MPI_COMM_WORLD)));
  RengaCallAbort(RengaInitialize(&argc, &argv, NULL));
  RengaCallAbort(RengaCommCreate(MPI_COMM_WORLD, &comm));
  RengaCallAbort(RengaCommSetFromOptions(comm));
  CheckNode(comm);
  CheckGroups(comm);
  CheckFortran();
  CheckUser();
  CheckView(comm);
  CheckHardware(comm);
  CheckSwitches();
  RengaCallAbort(RengaCommDestroy(&comm));
  RengaCallAbort(RengaFinalize());
  MPI_Finalize();
  return 0;
}

/* Comm: sockets and network cards of a rank's node, as the system says of them in files below /sys.
   RENGA_SYS in the environment names another folder, for tests. */
#include "commimpl.h"
#include "renga/private/open.h"
#include "renga/private/number.h"
#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MOST = 64, NAME_BYTES = 32, CPUS_MOST = 4096, SOCKETS_MOST = 64 };

typedef struct {
  int count;
  char name[NAMES_MOST][NAME_BYTES];
} SystemNames;

static void SystemPath(size_t size, char path[], const char *format, va_list values)
{
  const char *root = getenv("RENGA_SYS");
  const int used = snprintf(path, size, "%s/", root && *root ? root : "/sys");
  if (used > 0 && (size_t)used < size)
    RengaTextFormatList(path + used, size - (size_t)used, format, values);
}

/* The first line of a file; "" where there is none. */
__attribute__((format(printf, 2, 3))) static void ReadSystem(char line[NAME_BYTES * 2],
                                                             const char *format, ...)
{
  char path[512];
  va_list values;
  va_start(values, format);
  SystemPath(sizeof path, path, format, values);
  va_end(values);
  FILE *file = RengaFileOpen_Private(path, "r");
  if (!file || !fgets(line, NAME_BYTES * 2, file)) line[0] = '\0';
  if (file) fclose(file);
  line[strcspn(line, "\n")] = '\0';
}

static int CompareSystemNames(const void *a, const void *b)
{
  return strcmp(a, b);
}

__attribute__((format(printf, 2, 3))) static void ListSystem(SystemNames *names, const char *format,
                                                             ...)
{
  char path[512];
  va_list values;
  va_start(values, format);
  SystemPath(sizeof path, path, format, values);
  va_end(values);
  names->count = 0;
  DIR *folder = opendir(path);
  for (const struct dirent *entry; folder && (entry = readdir(folder)) != NULL;)
    if (entry->d_name[0] != '.' && names->count < NAMES_MOST)
      snprintf(names->name[names->count++], NAME_BYTES, "%.31s", entry->d_name);
  if (folder) closedir(folder);
  qsort(names->name, (size_t)names->count, NAME_BYTES, CompareSystemNames);
}

__attribute__((format(printf, 2, 3))) static void AddCard(CommHardware *hardware,
                                                          const char *format, ...)
{
  const size_t used = strlen(hardware->cards);
  va_list values;
  va_start(values, format);
  RengaTextFormatList(hardware->cards + used, sizeof hardware->cards - used, format, values);
  va_end(values);
}

/* RoCE has several versions under one port: the type of the first address that is of the second. */
static const char *LinkLayer(const char *card, const char *port, const char *layer)
{
  enum { ADDRESSES = 16 };
  char type[NAME_BYTES * 2];
  if (strcmp(layer, "Ethernet") != 0) return layer;
  for (int i = 0; i < ADDRESSES; i++) {
    ReadSystem(type, "class/infiniband/%s/ports/%s/gid_attrs/types/%d", card, port, i);
    if (!strcmp(type, "RoCE v2")) return "RoCE v2";
  }
  return "RoCE v1";
}

/* "200 Gb/sec (4X HDR)", "4: ACTIVE" */
static void FindInfiniBand(CommHardware *hardware)
{
  SystemNames cards, ports;
  ListSystem(&cards, "class/infiniband");
  for (int c = 0; c < cards.count; c++) {
    ListSystem(&ports, "class/infiniband/%s/ports", cards.name[c]);
    for (int p = 0; p < ports.count; p++) {
      char layer[NAME_BYTES * 2], rate[NAME_BYTES * 2], state[NAME_BYTES * 2], near[NAME_BYTES * 2];
      ReadSystem(layer, "class/infiniband/%s/ports/%s/link_layer", cards.name[c], ports.name[p]);
      ReadSystem(rate, "class/infiniband/%s/ports/%s/rate", cards.name[c], ports.name[p]);
      ReadSystem(state, "class/infiniband/%s/ports/%s/state", cards.name[c], ports.name[p]);
      ReadSystem(near, "class/infiniband/%s/device/numa_node", cards.name[c]);
      AddCard(hardware, "    %s port %s: %s, %s, %s", cards.name[c], ports.name[p],
              LinkLayer(cards.name[c], ports.name[p], layer), rate,
              strchr(state, ' ') ? strchr(state, ' ') + 1 : state);
      if (near[0] && near[0] != '-') AddCard(hardware, ", NUMA node %s", near);
      AddCard(hardware, " (class/infiniband/%s)\n", cards.name[c]);
    }
  }
}

/* Interfaces that are up and have a speed, in Mb/s: hsn0 and further of Slingshot, whose cards are
   cxi0 and further; others where nothing better is known. */
static void FindInterfaces(CommHardware *hardware)
{
  SystemNames slingshot, interfaces;
  ListSystem(&slingshot, "class/cxi");
  ListSystem(&interfaces, "class/net");
  const bool better = hardware->cards[0] || slingshot.count > 0;
  for (int i = 0; i < interfaces.count; i++) {
    const char *name = interfaces.name[i];
    const bool is_slingshot = slingshot.count > 0 && !strncmp(name, "hsn", 3);
    char state[NAME_BYTES * 2], speed[NAME_BYTES * 2];
    ReadSystem(state, "class/net/%s/operstate", name);
    ReadSystem(speed, "class/net/%s/speed", name);
    const long rate = strtol(speed, NULL, 10);
    if ((better && !is_slingshot) || strcmp(state, "up") != 0 || rate <= 0) continue;
    AddCard(hardware, "    %s: %s, %g Gb/s, up (class/net/%s)\n", name,
            is_slingshot ? "Slingshot" : "Ethernet", (double)rate / 1000, name);
  }
}

/* Those that the driver has, by their addresses on the bus. */
static void FindNVSwitches(CommHardware *hardware)
{
  SystemNames devices;
  int switches = 0;
  ListSystem(&devices, "bus/pci/drivers/nvidia-nvswitch");
  for (int d = 0; d < devices.count; d++) switches += strchr(devices.name[d], ':') != NULL;
  if (switches > 0)
    AddCard(hardware, "    NVLink: %d NVSwitch%s (bus/pci/drivers/nvidia-nvswitch)\n", switches,
            switches == 1 ? "" : "es");
}

/* Of the cores that this process may run on: "0-3,8" */
static void FindSockets(CommHardware *hardware)
{
  char line[1024], *at = NULL, package[NAME_BYTES * 2];
  bool has[SOCKETS_MOST] = {false};
  FILE *file = RengaFileOpen_Private("/proc/self/status", "r");
  while (file && !at && fgets(line, sizeof line, file))
    if (!strncmp(line, "Cpus_allowed_list:", 18)) at = line + 18;
  if (file) fclose(file);
  while (at && *at) {
    char *end;
    const long first = strtol(at, &end, 10);
    const long last = *end == '-' ? strtol(end + 1, &end, 10) : first;
    if (end == at) break;
    for (long cpu = first; cpu <= last && cpu < CPUS_MOST; cpu++) {
      ReadSystem(package, "devices/system/cpu/cpu%ld/topology/physical_package_id", cpu);
      const long socket = package[0] ? strtol(package, NULL, 10) : -1;
      if (socket >= 0 && socket < SOCKETS_MOST) has[socket] = true;
    }
    at = end + (*end == ',');
  }
  for (int s = 0; s < SOCKETS_MOST; s++) {
    const size_t used = strlen(hardware->sockets);
    if (has[s])
      snprintf(hardware->sockets + used, sizeof hardware->sockets - used, "%s%d",
               used > 0 ? ", " : "", s);
  }
}

void RengaCommFindHardware(CommHardware *hardware)
{
  memset(hardware, 0, sizeof *hardware);
  FindSockets(hardware);
  FindInfiniBand(hardware);
  FindInterfaces(hardware);
  FindNVSwitches(hardware);
}

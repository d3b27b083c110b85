/* A request of HTTP and its answer, bounded in time and size. */
#include "view.h"
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { FETCH_SECONDS = 10, MOST_ANSWER = 64 << 20, FIRST_ROOM = 1 << 16 };

static double SecondsOfFetch(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The next call waits no longer than until then; false: that is over. */
static bool SetTimeLeft(int file, double until)
{
  const double left = until - SecondsOfFetch();
  const time_t whole = left > 0 ? (time_t)left : 0;
  const struct timeval limit = {.tv_sec = whole,
                                .tv_usec = 1 + (suseconds_t)(1e6 * (left - (double)whole) * 0.999)};
  if (left <= 0) return false;
  return setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
         setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0;
}

static int ConnectTo(const AppAddress *address, double until, size_t size, char why[])
{
  const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  struct addrinfo *found = NULL;
  int made = -1;
  const int problem = getaddrinfo(address->host, address->port, &wanted, &found);
  snprintf(why, size, "%s", problem ? gai_strerror(problem) : "");
  for (const struct addrinfo *at = found; at && made < 0; at = at->ai_next) {
    made = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    if (made < 0) continue;
    const bool in_time = SetTimeLeft(made, until);
    if (in_time && connect(made, at->ai_addr, at->ai_addrlen) == 0) break;
    snprintf(why, size, "%s", in_time ? strerror(errno) : "no time is left for it");
    close(made);
    made = -1;
  }
  if (found) freeaddrinfo(found);
  return made;
}

static bool SendRequest(int file, double until, const AppAddress *address, const char *path)
{
  char text[1024];
  const bool colons = strchr(address->host, ':') != NULL;
  const int length = snprintf(
      text, sizeof text, "GET %s HTTP/1.1\r\nHost: %s%s%s:%s\r\nConnection: close\r\n%s%s%s\r\n",
      path, colons ? "[" : "", address->host, colons ? "]" : "", address->port,
      address->token ? "Authorization: Bearer " : "", address->token ? address->token : "",
      address->token ? "\r\n" : "");
  if (length >= (int)sizeof text) return false;
  for (int sent = 0; sent < length;) {
    if (!SetTimeLeft(file, until)) return false;
    const ssize_t now = send(file, text + sent, (size_t)(length - sent), MSG_NOSIGNAL);
    if (now <= 0) return false;
    sent += (int)now;
  }
  return true;
}

/* To the end of what is sent; of malloc, NULL: it is too long, too slow or broke off. */
static char *ReceiveAll(int file, double until)
{
  size_t room = FIRST_ROOM, used = 0;
  char *text = malloc(room);
  ssize_t got = 1;
  while (text && got > 0 && SetTimeLeft(file, until)) {
    if (used + 1 == room && room < MOST_ANSWER) {
      char *more = realloc(text, room *= 2);
      if (!more) break;
      text = more;
    }
    got = used + 1 < room ? recv(file, text + used, room - used - 1, 0) : -1;
    if (got > 0) used += (size_t)got;
  }
  if (text && got == 0) {
    text[used] = '\0';
    return text;
  }
  free(text);
  return NULL;
}

int AppFetch(const AppAddress *address, const char *path, size_t size, char why[], char **body)
{
  int status = 0;
  char *text = NULL;
  *body = NULL;
  const double until = SecondsOfFetch() + FETCH_SECONDS;
  const int file = ConnectTo(address, until, size, why);
  if (file < 0) return 0;
  if (SendRequest(file, until, address, path)) text = ReceiveAll(file, until);
  close(file);
  char *start = text ? strstr(text, "\r\n\r\n") : NULL;
  if (!start || sscanf(text, "HTTP/1.%*c %d", &status) != 1) {
    snprintf(why, size, "what answers there is no page of a run");
    free(text);
    return 0;
  }
  start += 4;
  memmove(text, start, strlen(start) + 1);
  *body = text;
  return status;
}

/* A socket that listens: on an address, and on a port that nobody else has. */
#include "server.h"
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 16 };

static int GetNumber(int socket)
{
  union {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
  } own = {.six = {0}};
  socklen_t length = sizeof own;
  if (getsockname(socket, &own.any, &length) != 0) return 0;
  return ntohs(own.any.sa_family == AF_INET6 ? own.six.sin6_port : own.four.sin_port);
}

/* -1: errno says why. */
static int ListenAt(const struct addrinfo *address)
{
  const int yes = 1;
  const int made = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (made < 0) return -1;
  setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(made, address->ai_addr, address->ai_addrlen) == 0 && listen(made, BACKLOG) == 0)
    return made;
  const int error = errno;
  close(made);
  errno = error;
  return -1;
}

RengaErrorCode AppListen(const char *option, const char *host, const char *port, int *listener,
                         int *number)
{
  const struct addrinfo wanted = {
      .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
  struct addrinfo *found = NULL;
  int made = -1;
  const int problem = getaddrinfo(host, port, &wanted, &found);
  RengaCheck(problem == 0, MPI_COMM_SELF, RENGA_ERR_OPTION, "%s: %s: %s", option, host,
             gai_strerror(problem));
  for (const struct addrinfo *at = found; at && made < 0; at = at->ai_next) made = ListenAt(at);
  const int error = errno;
  freeaddrinfo(found);
  RengaCheck(made >= 0, MPI_COMM_SELF, RENGA_ERR_OPTION,
             error == EADDRINUSE
                 ? "%s: port %s of %s is in use by another program: take another, or 0 for any "
                   "that is free"
                 : "%s: port %s of %s cannot be listened on: %s",
             option, port, host, strerror(error));
  *listener = made;
  *number = GetNumber(made);
  return RENGA_SUCCESS;
}

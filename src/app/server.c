/* The server: one thread that waits for its clients by poll(). It sleeps while nobody asks, runs
   behind the threads that compute, and touches nothing of the run but through the answer function.
 */
#include "server.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
  MOST_CLIENTS = 16,
  MOST_BYTES = 4096,   /* of a request */
  CLIENT_SECONDS = 10, /* from its first byte to the last of its answer */
  MOST_ANSWERS = 20,   /* in a second */
  MOST_ROUNDS = 500,   /* of poll(), in a second */
  NICENESS = 10
};

typedef struct {
  int file; /* -1: nobody */
  char request[MOST_BYTES + 1];
  size_t got;
  char head[1024];
  size_t head_length, sent; /* head_length 0: the request is not whole yet */
  AppAnswer answer;
  bool head_only;
  double until;
} Client;

struct _AppServer {
  AppServerSettings settings; /* its strings are not used but for the token */
  char *token;
  pthread_t thread;
  int listener, port, wake[2];
  Client client[MOST_CLIENTS];
  int answers, rounds; /* in the second that began at `second` */
  double second;
};

static double SecondsNow(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void ForgetClient(Client *client)
{
  if (client->file < 0) return;
  close(client->file);
  free(client->answer.bytes);
  memset(client, 0, sizeof *client);
  client->file = -1;
}

/* Where all places are taken, the one that has waited longest makes room. */
static void AcceptClient(AppServer server)
{
  Client *place = &server->client[0];
  const int file = accept(server->listener, NULL, NULL);
  if (file < 0) return;
  for (int c = 0; c < MOST_CLIENTS; c++) {
    Client *client = &server->client[c];
    if (client->file < 0 || (place->file >= 0 && client->until < place->until)) place = client;
  }
  ForgetClient(place);
  if (fcntl(file, F_SETFL, O_NONBLOCK) != 0 || fcntl(file, F_SETFD, FD_CLOEXEC) != 0) {
    close(file);
    return;
  }
  place->file = file;
  place->until = SecondsNow() + CLIENT_SECONDS;
}

static const char *NameStatus(int status)
{
  static const struct {
    int status;
    const char *name;
  } names[] = {
      {200, "OK"},        {400, "Bad Request"},        {403, "Forbidden"},
      {404, "Not Found"}, {405, "Method Not Allowed"}, {431, "Request Header Fields Too Large"}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (names[i].status == status) return names[i].name;
  return "Error";
}

/* Nothing of elsewhere is loaded by the page, nor told its address. */
static void BeginAnswer(Client *client, int status)
{
  static const char plain[] = "text/plain; charset=utf-8";
  if (!client->answer.bytes) {
    const char *name = NameStatus(status);
    client->answer = (AppAnswer){plain, malloc(64), 0};
    if (client->answer.bytes)
      client->answer.length = (size_t)snprintf(client->answer.bytes, 64, "%d %s\n", status, name);
  }
  client->head_length = (size_t)snprintf(
      client->head, sizeof client->head,
      "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n"
      "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
      "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n"
      "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'; connect-src 'self'; img-src 'self'\r\n\r\n",
      status, NameStatus(status), client->answer.type, client->answer.length);
}

static void AnswerClient(AppServer server, Client *client)
{
  char path[256];
  const AppServerSettings *settings = &server->settings;
  int status =
      AppRequestRead(client->request, server->token, &client->head_only, sizeof path, path);
  if (status == 200 && !settings->answer(settings->user, path, &client->answer)) status = 404;
  BeginAnswer(client, status);
  server->answers++;
}

/* False: the client is gone. */
static bool ReadFromClient(AppServer server, Client *client)
{
  const ssize_t got =
      recv(client->file, client->request + client->got, MOST_BYTES - client->got, 0);
  if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
  client->got += (size_t)got;
  client->request[client->got] = '\0';
  if (AppRequestIsWhole(client->request))
    AnswerClient(server, client);
  else if (client->got == MOST_BYTES || strlen(client->request) < client->got)
    BeginAnswer(client, client->got == MOST_BYTES ? 431 : 400);
  return true;
}

/* False: all is sent, or the client is gone. */
static bool SendToClient(Client *client)
{
  const size_t body = client->head_only ? 0 : client->answer.length;
  const bool in_head = client->sent < client->head_length;
  const size_t at = in_head ? client->sent : client->sent - client->head_length;
  const char *from = in_head ? client->head + at : client->answer.bytes + at;
  const size_t left = in_head ? client->head_length - at : body - at;
  const ssize_t sent = left ? send(client->file, from, left, MSG_NOSIGNAL) : 0;
  if (sent < 0) return errno == EAGAIN || errno == EINTR;
  client->sent += (size_t)sent;
  if (client->sent < client->head_length + body) return true;
  shutdown(client->file, SHUT_WR);
  return false;
}

static bool HadEnough(AppServer server)
{
  return server->answers >= MOST_ANSWERS || server->rounds >= MOST_ROUNDS;
}

/* Milliseconds until something is due; -1: nothing is. */
static int TimeUntilDue(AppServer server, double now)
{
  double until = -1;
  if (HadEnough(server)) return (int)(1000 * (server->second + 1 - now)) + 1;
  for (int c = 0; c < MOST_CLIENTS; c++)
    if (server->client[c].file >= 0 && (until < 0 || server->client[c].until < until))
      until = server->client[c].until;
  return until < 0 ? -1 : until <= now ? 0 : (int)(1000 * (until - now)) + 1;
}

/* The clients that something came from or that take more; those whose time is up are forgotten. */
static void ServeClients(AppServer server, const struct pollfd events[])
{
  const double now = SecondsNow();
  for (int c = 0; c < MOST_CLIENTS; c++) {
    Client *client = &server->client[c];
    bool stays = client->until > now;
    if (client->file < 0) continue;
    if (stays && events[c].fd == client->file && events[c].revents)
      stays = client->head_length ? SendToClient(client) : ReadFromClient(server, client);
    if (!stays) ForgetClient(client);
  }
}

/* One round: false where the server is to end. After enough of this second it hears its owner only.
 */
static bool WaitAndServe(AppServer server)
{
  struct pollfd events[MOST_CLIENTS + 2];
  const double now = SecondsNow();
  if (now - server->second >= 1) server->second = now, server->answers = server->rounds = 0;
  const bool pauses = HadEnough(server);
  server->rounds++;
  for (int c = 0; c < MOST_CLIENTS; c++) {
    const short waits_for = server->client[c].head_length ? POLLOUT : POLLIN;
    events[c] = (struct pollfd){pauses ? -1 : server->client[c].file, waits_for, 0};
  }
  events[MOST_CLIENTS] = (struct pollfd){server->wake[0], POLLIN, 0};
  events[MOST_CLIENTS + 1] = (struct pollfd){pauses ? -1 : server->listener, POLLIN, 0};
  if (poll(events, MOST_CLIENTS + 2, TimeUntilDue(server, now)) < 0) return errno == EINTR;
  if (events[MOST_CLIENTS].revents) return false;
  ServeClients(server, events);
  if (events[MOST_CLIENTS + 1].revents) AcceptClient(server);
  return true;
}

static void *RunServer(void *context)
{
  AppServer server = context;
  (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICENESS); /* of this thread */
  while (WaitAndServe(server)) continue;
  return NULL;
}

/* No signal is handled in the thread: those of the run mean the thread that computes. */
static int StartThread(AppServer server)
{
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const int error = pthread_create(&server->thread, NULL, RunServer, server);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return error;
}

static void FreeServer(AppServer *server)
{
  for (int c = 0; c < MOST_CLIENTS; c++) ForgetClient(&(*server)->client[c]);
  for (int i = 0; i < 2; i++)
    if ((*server)->wake[i] >= 0) close((*server)->wake[i]);
  if ((*server)->listener >= 0) close((*server)->listener);
  RengaFree(&(*server)->token);
  RengaFree(server);
}

static RengaErrorCode StartServer(AppServer server, const AppServerSettings *settings)
{
  server->settings = *settings;
  if (settings->token) RengaCall(RengaStringCopy(settings->token, &server->token));
  RengaCall(AppListen(settings->option, settings->host ? settings->host : "127.0.0.1",
                      settings->port, &server->listener, &server->port));
  RengaCheck(pipe(server->wake) == 0, MPI_COMM_SELF, RENGA_ERR_LIBRARY, "%s: %s", settings->option,
             strerror(errno));
  for (int i = 0; i < 2; i++) fcntl(server->wake[i], F_SETFD, FD_CLOEXEC);
  const int error = StartThread(server);
  RengaCheck(error == 0, MPI_COMM_SELF, RENGA_ERR_LIBRARY, "%s: no thread: %s", settings->option,
             strerror(error));
  return RENGA_SUCCESS;
}

RengaErrorCode AppServerStart(const AppServerSettings *settings, AppServer *server)
{
  AppServer made;
  RengaCall(RengaMalloc(1, &made));
  made->listener = made->wake[0] = made->wake[1] = -1;
  for (int c = 0; c < MOST_CLIENTS; c++) made->client[c].file = -1;
  const RengaErrorCode code = StartServer(made, settings);
  if (code) FreeServer(&made);
  RengaCall(code);
  *server = made;
  return RENGA_SUCCESS;
}

int AppServerGetPort(AppServer server)
{
  return server->port;
}

/* What the thread reads is freed when it has ended; a closed pipe wakes it as a byte does. */
void AppServerStop(AppServer *server)
{
  while (write((*server)->wake[1], "", 1) < 0 && errno == EINTR) continue;
  close((*server)->wake[1]);
  (*server)->wake[1] = -1;
  pthread_join((*server)->thread, NULL);
  FreeServer(server);
}

/* A small server of HTTP/1.1 in a thread of its own, for a page that people look at. What it takes
   of the process is bounded: clients, the bytes that it reads of each, how long it waits for one,
   and answers per second. */
#pragma once
#include "rengasys.h"

/* Made by the answer function in the server's thread; bytes: of malloc, freed by the server. */
typedef struct {
  const char *type; /* "text/html; charset=utf-8" */
  char *bytes;
  size_t length;
} AppAnswer;
typedef struct {
  const char *option; /* for messages: "-monitor http:8080" */
  const char *host;   /* NULL: 127.0.0.1 */
  const char *port;   /* "0": any that is free */
  const char *token;  /* requests must have it; NULL: only names of this machine are answered */
  bool (*answer)(void *user, const char *path, AppAnswer *answer); /* false: there is no such */
  void *user;
} AppServerSettings;
typedef struct _AppServer *AppServer;
RengaErrorCode AppServerStart(const AppServerSettings *settings, AppServer *server);
int AppServerGetPort(AppServer server);
void AppServerStop(AppServer *server);

/* listen.c: a socket that listens, and its port. */
RengaErrorCode AppListen(const char *option, const char *host, const char *port, int *listener,
                         int *number);
/* request.c: does a host of so many letters mean this machine? localhost, ::1 and addresses
   127.a.b.c do; any other name may be led anywhere. */
bool AppHostIsThisMachine(const char *host, size_t length);
/* Is the text of a request whole? Then which status it is answered with: 200 or an
   error's, and path, without the question mark and what follows it. */
bool AppRequestIsWhole(const char *text);
int AppRequestRead(const char *text, const char *token, bool *head, size_t size, char path[]);

/* What a client asks for, and whether it may. */
#include "server.h"
#include "renga/private/number.h"
#include <arpa/inet.h>
#include <string.h>

bool AppRequestIsWhole(const char *text)
{
  return strstr(text, "\r\n\r\n") || strstr(text, "\n\n");
}

/* The value of a header, to the end of its line; NULL: it is not given. */
static const char *FindHeader(const char *text, const char *name, int *length)
{
  const size_t letters = strlen(name);
  for (const char *line = strchr(text, '\n'); line; line = strchr(line, '\n')) {
    line++;
    if (!RengaIsSamePart(line, name, letters) || line[letters] != ':') continue;
    line += letters + 1;
    line += strspn(line, " \t");
    *length = (int)strcspn(line, " \t\r\n");
    return line;
  }
  return NULL;
}

/* In a time that does not depend on where they differ. */
static bool IsToken(const char *token, const char *given, size_t length)
{
  unsigned char different = strlen(token) != length;
  for (size_t i = 0; i < length && token[i]; i++) different |= (unsigned char)(token[i] ^ given[i]);
  return !different;
}

/* As "?token=…" or "&token=…" of the address, or in a header "Authorization: Bearer …". */
static bool HasToken(const char *text, const char *token)
{
  static const char key[] = "token=", scheme[] = "Bearer ";
  const char *end = text + strcspn(text, "\r\n"), *line = text;
  while ((line = strstr(line, key)) != NULL && line < end) {
    const bool begins = line > text && (line[-1] == '?' || line[-1] == '&');
    line += sizeof key - 1;
    if (begins && IsToken(token, line, strcspn(line, "& \r\n"))) return true;
  }
  int length;
  const char *header = FindHeader(text, "Authorization", &length);
  if (!header || !RengaIsSamePart(header, scheme, sizeof scheme - 1)) return false;
  header += sizeof scheme - 1;
  return IsToken(token, header, strcspn(header, " \t\r\n"));
}

bool AppHostIsThisMachine(const char *host, size_t length)
{
  char text[64];
  struct in_addr address;
  if (length > 2 && *host == '[' && host[length - 1] == ']') host++, length -= 2;
  if (length >= sizeof text) return false;
  snprintf(text, sizeof text, "%.*s", (int)length, host);
  if (inet_pton(AF_INET, text, &address) == 1) return ntohl(address.s_addr) >> 24 == 127;
  return RengaIsSameWord(text, "localhost") || !strcmp(text, "::1");
}

/* A page of elsewhere may have its own name lead to this machine; a browser then says that name. */
static bool NamesThisMachine(const char *text)
{
  int length;
  const char *host = FindHeader(text, "Host", &length);
  if (!host) return true;
  const size_t all = (size_t)length;
  const size_t letters = *host == '[' ? strcspn(host, "] \r\n") + 1 : strcspn(host, ": \t\r\n");
  return letters <= all && (letters == all || host[letters] == ':') &&
         AppHostIsThisMachine(host, letters);
}

int AppRequestRead(const char *text, const char *token, bool *head, size_t size, char path[])
{
  const size_t method = strcspn(text, " \r\n");
  const char *target = text + method;
  *head = method == 4 && !strncmp(text, "HEAD", 4);
  if (*target != ' ' || target[1] != '/') return 400;
  const size_t letters = strcspn(++target, "? \r\n");
  const char *version = target + strcspn(target, " \r\n");
  if (strncmp(version, " HTTP/1.", 8) != 0 || letters >= size) return 400;
  if (token ? !HasToken(text, token) : !NamesThisMachine(text)) return 403;
  if (!*head && (method != 3 || strncmp(text, "GET", 3) != 0)) return 405;
  snprintf(path, size, "%.*s", (int)letters, target);
  return 200;
}

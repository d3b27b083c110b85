/* The word that requests to the page of a run must have: a secret, so that it is better in a file
   or in the environment than on a command line, which every user of the machine can list. */
#include "app.h"
#include "renga/private/open.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LONGEST = 4096 };

/* The first line, without blanks around it. */
static RengaErrorCode ReadTokenFile(const char *name, char **token)
{
  char line[LONGEST] = "";
  struct stat found;
  FILE *file = RengaFileOpen_Private(name, "r");
  RengaCheck(file, MPI_COMM_SELF, RENGA_ERR_FILE_OPEN, "-monitor_token_file %s: %s", name,
             RengaFileReason_Private(errno));
  if (fstat(fileno(file), &found) == 0 && S_ISREG(found.st_mode) && found.st_mode & 077)
    RengaWarning(MPI_COMM_SELF,
                 "-monitor_token_file %s: other users can read it; chmod 600 lets you alone", name);
  if (!fgets(line, sizeof line, file)) line[0] = '\0';
  fclose(file);
  line[strcspn(line, "\r\n")] = '\0';
  RengaCall(RengaStringCopy(line, token));
  return RENGA_SUCCESS;
}

RengaErrorCode AppTokenFind(char **token)
{
  const char *word, *file, *environment = getenv("RENGA_MONITOR_TOKEN");
  *token = NULL;
  RengaCall(RengaOptionsGetString("monitor_token", &word, NULL));
  RengaCall(RengaOptionsGetString("monitor_token_file", &file, NULL));
  RengaCheck(!word || !file, MPI_COMM_SELF, RENGA_ERR_OPTION,
             "-monitor_token and -monitor_token_file %s both say the token: leave one of the two "
             "out",
             file);
  if (file) RengaCall(ReadTokenFile(file, token));
  if (word) RengaCall(RengaStringCopy(word, token));
  if (!word && !file && environment && environment[0])
    RengaCall(RengaStringCopy(environment, token));
  return RENGA_SUCCESS;
}

RengaErrorCode AppTokenRefuse(MPI_Comm printer, const char *why)
{
  RengaCall(AppRefuseUnused(printer, "monitor_token", why));
  RengaCall(AppRefuseUnused(printer, "monitor_token_file", why));
  return RENGA_SUCCESS;
}

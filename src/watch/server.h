/* server.h -- serves the page of `watch` to this machine's browsers.
 *
 * Only 127.0.0.1 is listened to, and only GET is answered. The address holds a random token, so that
 * other users of the machine and other pages in the browser cannot read it; a request whose Host is
 * not this machine is refused, so that no other site's name can be made to lead here. At most
 * CONNECTIONS are open at a time, each for TIMEOUT_S without progress. */
#ifndef WATCH_SERVER_H
#define WATCH_SERVER_H

#include "watch/runs.h"

enum { TOKEN_DIGITS = 32 };

typedef struct Server {
    int   listener, port;
    Runs *runs;
    char  token[TOKEN_DIGITS + 1];
} Server;

/* port 0: any that is free. */
Err server_open(Pool *pool, Runs *runs, int port, Server *server);
/* Until SIGINT or SIGTERM (stop_on_interrupt). */
Err server_run(Server *server);

#endif

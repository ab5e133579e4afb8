/* server.c -- connections, one request each, by one thread and poll. */
#include "watch/server.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/stop.h"
#include "watch/response.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CONNECTIONS = 32,
    TIMEOUT_S = 20, /* for a whole request; and for a client that takes nothing of the answer */
    SPARED_S = 1,   /* where all are in use, the one that waits longest is ended; none younger */
    WAIT_MS = 250,
    BACKLOG = 32
};

typedef struct Connection {
    int      fd;      /* -1: free */
    double   touched; /* when it began, or last took a part of its answer */
    char     in[HTTP_HEAD_MAX];
    size_t   n_in;
    bool     answering;
    Response answer;
    size_t   sent; /* of answer.text */
} Connection;

static void server_close(void *arg) { close(((Server *)arg)->listener); }

static Err token_make(char token[TOKEN_DIGITS + 1])
{
    unsigned char bytes[TOKEN_DIGITS / 2];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return file_fail("read", "the system's random numbers", errno);
    for (size_t i = 0; i < sizeof bytes; i++) {
        token[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        token[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    token[TOKEN_DIGITS] = '\0';
    return OK;
}

Err server_open(Pool *pool, Runs *runs, int port, Server *server)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t          n = sizeof at;
    int                one = 1;
    *server = (Server){ .runs = runs };
    TRY(token_make(server->token));
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (server->listener < 0)
        return fail(E_IO, "no socket can be opened: %s", strerror(errno));
    pool_at_free(pool, server_close, server);
    setsockopt(server->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(server->listener, (struct sockaddr *)&at, n) || listen(server->listener, BACKLOG))
        return fail(errno == EACCES ? E_USAGE : E_IO,
                    "cannot listen on port %d: %s; name another with --port N, or leave it out for "
                    "any free port",
                    port, strerror(errno));
    getsockname(server->listener, (struct sockaddr *)&at, &n);
    server->port = ntohs(at.sin_port);
    return OK;
}

static void connection_end(Connection *c)
{
    if (c->fd < 0)
        return;
    close(c->fd);
    if (c->answering)
        response_free(&c->answer);
    c->fd = -1;
}

static void connection_accept(Server *server, Connection *c)
{
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    c->fd = fd;
    c->n_in = c->sent = 0;
    c->answering = false;
    c->touched = clock_now();
}

/* Reads what there is; once the head is whole, the answer is made. */
static void connection_read(Server *server, Connection *c)
{
    HttpRequest request;
    ssize_t     got = recv(c->fd, c->in + c->n_in, sizeof c->in - c->n_in, 0);
    if (got <= 0) {
        if (got == 0 || (errno != EAGAIN && errno != EINTR))
            connection_end(c);
        return;
    }
    c->n_in += (size_t)got;
    int status = http_parse(c->in, c->n_in, &request);
    if (!status)
        return;
    response_make(&c->answer, server->runs, server->token, status, &request);
    c->answering = true;
    c->touched = clock_now();
}

static void connection_write(Connection *c)
{
    Response *a = &c->answer;
    bool      all = c->sent == a->text.n;
    if (all && !response_more(a)) {
        /* what is still unread would make the close a reset, which could overtake the answer */
        shutdown(c->fd, SHUT_WR);
        while (recv(c->fd, c->in, sizeof c->in, MSG_DONTWAIT) > 0)
            continue;
        connection_end(c);
        return;
    }
    c->sent = all ? 0 : c->sent;
    ssize_t sent = send(c->fd, a->text.at + c->sent, a->text.n - c->sent, MSG_NOSIGNAL);
    if (sent > 0) {
        c->sent += (size_t)sent;
        c->touched = clock_now();
    } else if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        connection_end(c);
    }
}

/* Where the next connection goes: a free one, or that of who has waited longest; NULL: neither. Ends
 * those that take too long. */
static Connection *server_room(Connection all[CONNECTIONS])
{
    double      now = clock_now();
    Connection *unused = NULL, *oldest = &all[0];
    for (int i = 0; i < CONNECTIONS; i++) {
        if (all[i].fd >= 0 && now - all[i].touched > TIMEOUT_S)
            connection_end(&all[i]);
        unused = all[i].fd < 0 ? &all[i] : unused;
        oldest = all[i].touched < oldest->touched ? &all[i] : oldest;
    }
    return unused ? unused : now - oldest->touched > SPARED_S ? oldest : NULL;
}

Err server_run(Server *server)
{
    Pool       *pool = pool_new(NULL, "connections");
    Connection *all = NEWN(pool, Connection, CONNECTIONS);
    for (int i = 0; i < CONNECTIONS; i++)
        all[i].fd = -1;
    while (!stop_asked()) {
        struct pollfd on[CONNECTIONS + 1];
        bool          room = server_room(all) != NULL;
        for (int i = 0; i < CONNECTIONS; i++)
            on[i] = (struct pollfd){ .fd = all[i].fd,
                                     .events = all[i].answering ? POLLOUT : POLLIN };
        /* without room, others wait in the system's queue */
        on[CONNECTIONS] = (struct pollfd){ .fd = room ? server->listener : -1, .events = POLLIN };
        if (poll(on, CONNECTIONS + 1, WAIT_MS) <= 0)
            continue;
        for (int i = 0; i < CONNECTIONS; i++) {
            if (all[i].fd < 0 || !on[i].revents)
                continue;
            if (all[i].answering)
                connection_write(&all[i]);
            else
                connection_read(server, &all[i]);
        }
        Connection *next = on[CONNECTIONS].revents ? server_room(all) : NULL;
        if (next) {
            connection_end(next);
            connection_accept(server, next);
        }
    }
    for (int i = 0; i < CONNECTIONS; i++)
        connection_end(&all[i]);
    pool_free(pool);
    return OK;
}

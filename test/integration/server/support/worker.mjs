/** A cluster: a primary that adds up, if told so, and workers behind one port. Says its port; ends when its parent does. */
import cluster from 'node:cluster';
import { createServer } from 'node:http';
import { createBackend } from 'evenkeel/server';

const WORKERS = 3;

if (cluster.isPrimary) {
  if (process.argv[2] === 'adds-up') createBackend();
  for (let index = 0; index < WORKERS; index++) cluster.fork();
  let ready = 0;
  cluster.on('message', (_worker, message) => {
    if (typeof message.port === 'number' && ++ready === WORKERS) process.send({ port: message.port });
  });
  process.once('disconnect', () => process.exit(0));
} else {
  const pod = createBackend();
  const server = createServer(
    pod.http((request, response) => {
      // Its connection is not kept: the next one goes to another worker.
      response.setHeader('connection', 'close');
      if (request.url !== '/hang') response.end(String(process.pid));
    }),
  );
  server.listen(0, '127.0.0.1', () => process.send({ port: server.address().port }));
}

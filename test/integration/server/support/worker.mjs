/** A cluster of workers behind one port. Says its port; ends when its parent does. */
import cluster from 'node:cluster';
import { createServer } from 'node:http';
import { createBackend } from 'evenkeel/server';

const WORKERS = 3;

if (cluster.isPrimary) {
  for (let index = 0; index < WORKERS; index++) cluster.fork();
  let ready = 0;
  cluster.on('message', (_worker, message) => {
    if (typeof message.port === 'number' && ++ready === WORKERS) process.send({ port: message.port });
  });
  process.once('disconnect', () => process.exit(0));
} else {
  const pod = createBackend();
  const server = createServer(
    pod.http((_request, response) => {
      // Its connection is not kept: the next one goes to another worker.
      response.setHeader('connection', 'close');
      response.end(String(process.pid));
    }),
  );
  server.listen(0, '127.0.0.1', () => process.send({ port: server.address().port }));
}

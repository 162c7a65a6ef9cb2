import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { createConnection } from 'mysql2/promise';
import { afterEach, expect, test } from 'vitest';
import { until } from '../../support/until.js';

const program = fileURLToPath(new URL('../../../examples/playground/pods/pod.js', import.meta.url));
const QUERY = 'SELECT @@report_host AS pod, id, state FROM orders WHERE id = 42';

let pod: ChildProcess | undefined;
afterEach(() => pod?.kill('SIGKILL'));

/** A pod as the kubelet starts it where no MariaDB is installed. */
async function startPod(): Promise<{ child: ChildProcess; port: number; told: Record<string, number>[] }> {
  const options = {
    name: 'orders-db-1',
    address: '127.0.0.1',
    ports: { http: 0, mysql: 0 },
    serviceTimes: { mysql: 1 },
  };
  const child = fork(program, [JSON.stringify(options)], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  pod = child;
  const [{ ports }] = (await once(child, 'message')) as [{ ports: Record<string, number> }];
  const told: Record<string, number>[] = [];
  child.on('message', (message: { type: string; connections: Record<string, number> }) => {
    if (message.type === 'connections') told.push(message.connections);
  });
  return { child, port: ports.mysql as number, told };
}

const connect = (port: number): ReturnType<typeof createConnection> =>
  createConnection({ host: '127.0.0.1', port, user: 'evenkeel', password: 'any', database: 'shop' });

test('answers with the name of its pod, counts connections by user, and leaves on SIGTERM', async () => {
  const { child, port, told } = await startPod();
  const [one, other] = [await connect(port), await connect(port)];
  const [rows] = await one.query(QUERY);
  expect(rows).toEqual([{ pod: 'orders-db-1', id: '42', state: 'paid' }]);
  await one.ping();
  await until('both connections are counted', () => told.at(-1)?.['mysql/evenkeel'] === 2);
  await one.end();
  await other.end();
  await until('none is left', () => told.at(-1)?.['mysql/evenkeel'] === undefined);
  child.kill('SIGTERM');
  expect(await once(child, 'exit')).toEqual([0, null]);
});

test('fails every statement while the fault is on, and no statement afterwards', async () => {
  const { child, port } = await startPod();
  const connection = await connect(port);
  child.send({ type: 'fault', fault: 'failing' });
  await until('statements fail', () =>
    connection.query(QUERY).then(
      () => false,
      (error: Error) => /orders-db-1 fails/.test(error.message),
    ),
  );
  child.send({ type: 'fault', fault: 'none' });
  await until('statements are answered', () =>
    connection.query(QUERY).then(
      () => true,
      () => false,
    ),
  );
  await connection.end();
});

/**
 * What a plain script does with one entry point, as published: calls in parallel before there is a connection; some one after the
 * other; and calls in parallel after each kind of loss: the servers `cut` every connection, are killed (`kill`), or `stop` in order. It
 * closes nothing and nothing else keeps the process alive, so it has to finish all of that first, and then to end by itself.
 *
 *   node script.mjs <entry point> '{"parallel": 40, "losses": ["cut", "kill"], "ports": [1234, …], "login": {…}}'
 *
 * The lines `kill` and `stop` ask the test to do that, and `down` to start the servers again.
 */
import { once } from 'node:events';
import { connect } from 'node:net';
import { setImmediate, setTimeout } from 'node:timers/promises';
import { staticEndpoints } from 'evenkeel';

const [name, given] = process.argv.slice(2);
const { ports, login, losses, parallel: PARALLEL } = JSON.parse(given);
/** A healthy server takes long to answer on a busy machine. */
const patient = { waitTimeoutMs: 120_000, pool: { connectTimeoutMs: 60_000 } };
const resolver = staticEndpoints(ports.map((port) => ({ address: '127.0.0.1', port })));

/** A read that takes a while. */
const READ = ['DEBUG', 'SLEEP', '0.002'];

/** Per entry point: one call, and how the servers are made to cut all connections. Nothing of it waits for `ready()`. */
const entryPoints = {
  async 'undici fetch'() {
    const { createFetch } = await import('evenkeel/undici');
    const orders = createFetch('http://orders.shop:80', { resolver, connections: 4 });
    return { call: async (path = '/') => (await orders(path)).text(), cut: (call) => call('/cut') };
  },
  async 'undici dispatcher'() {
    const { createDispatcher } = await import('evenkeel/undici');
    const orders = createDispatcher('http://orders.shop:80', { resolver, connections: 4 });
    const call = async (path = '/') => (await orders.request({ path, method: 'GET' })).body.text();
    return { call, cut: () => call('/cut') };
  },
  async 'undici whole app'() {
    const { createAppAgent } = await import('evenkeel/undici');
    const { setGlobalDispatcher } = await import('undici');
    const discovery = { dns: { clusterDomain: 'cluster.local', servers: ['127.0.0.1:1'] } };
    const services = ({ hostname }) => hostname === 'orders.shop' || undefined;
    setGlobalDispatcher(createAppAgent({ discovery, services, options: () => ({ resolver, connections: 4 }) }));
    const call = async (path = '/') => (await fetch(`http://orders.shop${path}`)).text();
    return { call, cut: () => call('/cut') };
  },
  async 'node:http'() {
    const { createAgent } = await import('evenkeel/node-http');
    const { get } = await import('node:http');
    const agent = createAgent('http://orders.shop:80', { resolver, connections: 4 });
    const call = (path = '/') =>
      new Promise((resolve, reject) => {
        const request = get({ host: 'orders.shop', path, agent }, (response) => {
          response.resume().on('end', resolve).on('error', reject);
        });
        request.on('error', reject);
      });
    return { call, cut: () => call('/cut') };
  },
  async gRPC() {
    const { credentials, makeGenericClientConstructor } = await import('@grpc/grpc-js');
    const { serviceChannelOptions, serviceTarget } = await import('evenkeel/grpc-js');
    const asIs = (bytes) => bytes;
    const method = (path) => ({
      ...{ path, requestStream: false, responseStream: false, requestSerialize: asIs, requestDeserialize: asIs },
      ...{ responseSerialize: asIs, responseDeserialize: asIs },
    });
    const Client = makeGenericClientConstructor({ call: method('/s/call'), cut: method('/s/cut') }, 's');
    const client = new Client(
      serviceTarget('orders.shop:80'),
      credentials.createInsecure(),
      serviceChannelOptions({ resolver }),
    );
    const run = (what) =>
      new Promise((resolve, reject) => {
        client[what](Buffer.from('x'), (error, answer) => (error ? reject(error) : resolve(answer)));
      });
    return { call: () => run('call'), cut: () => run('cut').catch(() => {}) };
  },
  async mysql2() {
    const { createPoolCluster } = await import('evenkeel/mysql2');
    const cluster = createPoolCluster({ resolver, ...login, ...patient, connectionLimit: 4 });
    const call = () => cluster.query('SELECT SLEEP(0.01)');
    return {
      call,
      cut: () =>
        killAll(
          () => cluster.query('SHOW PROCESSLIST'),
          (id) => cluster.query(`KILL ${id}`),
        ),
    };
  },
  async 'mysql2 transactions'() {
    const { createPoolCluster } = await import('evenkeel/mysql2');
    const cluster = createPoolCluster({ resolver, ...login, ...patient, connectionLimit: 4 });
    const call = async () => {
      const connection = await cluster.getConnection();
      try {
        await connection.beginTransaction();
        await connection.query('SELECT 1');
        await connection.commit();
        connection.release();
      } catch (error) {
        connection.destroy();
        throw error;
      }
    };
    return {
      call,
      cut: () =>
        killAll(
          () => cluster.query('SHOW PROCESSLIST'),
          (id) => cluster.query(`KILL ${id}`),
        ),
    };
  },
  async pg() {
    const { createPool } = await import('evenkeel/pg');
    const pool = createPool({ resolver, ...login, ...patient, max: 4 });
    pool.on('error', () => {});
    return { call: () => pool.query('SELECT pg_sleep(0.01)'), cut: () => terminateAll(pool) };
  },
  async 'pg transactions'() {
    const { createPool } = await import('evenkeel/pg');
    const pool = createPool({ resolver, ...login, ...patient, max: 4 });
    pool.on('error', () => {});
    return { call: () => transaction(pool, (client) => client.release()), cut: () => terminateAll(pool) };
  },
  async 'pg, connections given back for good'() {
    const { createPool } = await import('evenkeel/pg');
    const pool = createPool({ resolver, ...login, ...patient, max: 4, maxUses: 3 });
    pool.on('error', () => {});
    let calls = 0;
    const release = [
      (client) => client.release(true),
      (client) => client.release(new Error('gone')),
      async (client) => {
        await client.query('BEGIN');
        client.release();
      },
      (client) => client.release(),
    ];
    return { call: () => transaction(pool, release[calls++ % release.length]), cut: () => terminateAll(pool) };
  },
  async ioredis() {
    const { Redis } = await import('ioredis');
    // Never connected to.
    const primary = new Redis({ port: ports[0], ...login, lazyConnect: true });
    return redisReplicas(primary, (client) => client.call(...READ));
  },
  async 'node-redis'() {
    const { createClient } = await import('redis');
    const primary = createClient({ url: `redis://127.0.0.1:${ports[0]}` });
    return redisReplicas(primary, (client) => client.sendCommand(READ));
  },
  async amqplib() {
    const { createBrokers } = await import('evenkeel/amqp');
    const { connect } = await import('amqplib');
    const brokers = createBrokers('amqp://rabbit.shop:5672', { resolver });
    const call = async () => {
      const connection = await brokers.connect(connect);
      connection.on('error', () => {});
      const channel = await connection.createConfirmChannel();
      await channel.assertQueue('orders of amqplib');
      channel.sendToQueue('orders of amqplib', Buffer.from('order'));
      await channel.waitForConfirms();
      await connection.close();
    };
    return { call };
  },
  async 'amqp-connection-manager'() {
    const { createBrokers } = await import('evenkeel/amqp');
    const { connect } = await import('amqp-connection-manager');
    const brokers = createBrokers('amqp://rabbit.shop:5672', { resolver });
    const manager = brokers.connectManager(connect);
    const orders = manager.createChannel({ setup: (channel) => channel.assertQueue('orders of the manager') });
    orders.on('error', () => {});
    // The connection is the library's own, and holds the process as it has it.
    return { call: () => orders.sendToQueue('orders of the manager', 'order'), close: () => brokers.close() };
  },
  async 'rabbitmq-client'() {
    const { createBrokers } = await import('evenkeel/amqp');
    const { Connection } = await import('rabbitmq-client');
    const brokers = createBrokers('amqp://rabbit.shop:5672', { resolver });
    await brokers.balancer.ready();
    const rabbit = brokers.createConnection(Connection);
    rabbit.on('error', () => {});
    await rabbit.queueDeclare('orders').catch(() => {});
    const orders = rabbit.createPublisher({ confirm: true, maxAttempts: 100 });
    const close = async () => {
      await orders.close();
      await brokers.close();
    };
    return { call: () => orders.send('orders', 'order'), close };
  },
  async ws() {
    const { createWebSockets } = await import('evenkeel/ws');
    const sockets = createWebSockets('ws://chat.shop:80', { resolver });
    const call = async (message = 'hello') => {
      const socket = new sockets.WebSocket('ws://chat.shop:80/');
      await once(socket, 'open');
      socket.send(message);
      await onceOpen(socket, 'message');
      socket.close();
      await once(socket, 'close');
    };
    return { call, cut: () => call('cut').catch(() => {}) };
  },
  async tcp() {
    const { createConnector } = await import('evenkeel/tcp');
    const connector = createConnector('broker.shop:1883', { resolver });
    const call = async (message = 'hello') => {
      const socket = await connector.connect();
      socket.write(message);
      await onceOpen(socket, 'data');
      socket.destroy();
    };
    return { call, cut: () => call('cut').catch(() => {}) };
  },
  async 'balancer.run'() {
    const { createBalancer } = await import('evenkeel');
    const { lineTransport } = await import('../../../../examples/any-protocol/line-transport.js');
    const balancer = createBalancer({ resolver, transport: lineTransport });
    const call = (message = 'hello') => balancer.run((client) => client.ask(message), { idempotent: true });
    return { call, cut: () => call('cut').catch(() => {}) };
  },
};

async function redisReplicas(primary, read) {
  const { createReplicas } = await import('evenkeel/redis');
  const { Redis } = await import('ioredis');
  primary.on('error', () => {});
  const resolver = staticEndpoints([{ address: '127.0.0.1', port: ports[1] }]);
  const { client } = createReplicas(primary, 'redis.shop:6379', {
    resolver,
    role: 'replica',
    readCommands: ['DEBUG'],
  });
  const cut = async () => {
    const other = new Redis({ port: ports[1] });
    await other.client('KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    other.disconnect();
  };
  return { call: () => read(client), cut };
}

/** Rejects if the socket closes first. */
function onceOpen(socket, event) {
  return new Promise((resolve, reject) => {
    socket.once(event, resolve).once('error', reject);
    socket.once('close', () => reject(new Error('closed')));
  });
}

async function transaction(pool, release) {
  const client = await pool.connect();
  let isReleased = false;
  client.once('error', () => {});
  try {
    await client.query('BEGIN');
    await client.query('SELECT 1');
    await client.query('COMMIT');
    isReleased = true;
    await release(client);
  } catch (error) {
    if (!isReleased) client.release(error);
    throw error;
  }
}

const terminateAll = (pool) =>
  pool
    .query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend'`)
    .catch(() => {});

async function killAll(list, kill) {
  const [rows] = await list();
  for (const { Id, User } of rows) if (User === login.user) await kill(Id).catch(() => {});
}

const accepts = (port) =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(true);
    }).on('error', () => resolve(false));
  });

const { call, cut, close } = await entryPoints[name]();

const many = async () => {
  const results = await Promise.allSettled(Array.from({ length: PARALLEL }, () => call()));
  const failed = results.filter(({ status }) => status === 'rejected');
  for (const { reason } of failed.slice(0, 3)) process.stderr.write(`${reason?.stack}\n`);
  return `${results.length - failed.length} of ${PARALLEL}`;
};

const isTrue = () => true;
const isFalse = () => false;

console.log('cold', await many());
for (let n = 0; n < 10; n++) await call();
console.log('one by one');
for (const loss of losses) {
  if (loss === 'cut') await cut(call);
  else {
    console.log(loss);
    for (const port of ports) while (await accepts(port)) await setTimeout(20);
    console.log('down');
  }
  // Calls that ran into the loss itself may fail, as with every client; each has to end.
  await Promise.allSettled(Array.from({ length: PARALLEL }, () => call()));
  for (let failed = 0; failed < 500 && !(await call().then(isTrue, isFalse)); failed++) {
    if (loss === 'cut') await setImmediate();
    else await setTimeout(100);
  }
  console.log('heard');
  console.log(`after ${loss}`, await many());
}
await close?.();

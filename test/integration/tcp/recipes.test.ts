import { once } from 'node:events';
import { type Connector, type ConnectorOptions, createConnector } from 'evenkeel/tcp';
import { FakeResolver } from 'evenkeel/testing';
import { Client as LdapClient } from 'ldapts';
import { connect, MqttClient } from 'mqtt';
import { createTransport } from 'nodemailer';
import { expect, it } from 'vitest';
import { closedAfterEach } from '../../support/opened.js';
import { isMissing, type ServerProgram, SystemServer, titled } from '../../support/programs/programs-of-debian.js';
import { until } from '../../support/until.js';

const open = closedAfterEach();

/** Three servers and a connector, with the options of the recipe. */
async function world(program: ServerProgram, options: ConnectorOptions) {
  const servers = await Promise.all([0, 1, 2].map(() => SystemServer.start(program)));
  open.push(...servers);
  const resolver = new FakeResolver();
  const connector = createConnector('server.shop:1', { resolver, leaveSpreadMs: 200, ...options });
  open.push({ [Symbol.asyncDispose]: () => connector.close({ signal: AbortSignal.abort() }) });
  const endpoints = servers.map(({ endpoint }) => endpoint);
  resolver.update(...endpoints);
  await connector.balancer.ready();
  /** All but the first. */
  const leave = (): void => resolver.update(...endpoints.slice(1));
  return { connector, leave, endpoints };
}

const counts = ({ balancer }: Connector): number[] =>
  balancer
    .snapshot()
    .endpoints.filter(({ state }) => state === 'ready')
    .map(({ inFlight }) => inFlight);

it.skipIf(isMissing('Mosquitto'))(
  titled(
    'Mosquitto',
    'MQTT: mqtt.js connects to the emptiest broker, moves without its will being published, and subscribes again',
  ),
  async () => {
    const { connector, leave, endpoints } = await world('Mosquitto', {
      closeLeaving: true,
      finish: (socket) => socket.end(Buffer.from([0xe0, 0x00])),
    });
    const heard: string[] = [];
    const clients = Array.from({ length: 6 }, (_, index) => {
      const will = { topic: 'wills', payload: Buffer.from(`will ${index}`) };
      const options = { clientId: `till-${index}`, reconnectPeriod: 50, will };
      const client = new MqttClient(() => connector.createConnection() as never, options);
      client.subscribe('prices');
      client.on('message', (_topic, message) => void heard.push(`${index} ${message}`));
      client.on('error', () => {});
      return client;
    });
    await Promise.all(clients.map((client) => new Promise<void>((resolve) => client.once('connect', () => resolve()))));
    expect(counts(connector)).toEqual([2, 2, 2]);
    const watchers = endpoints.map(({ port }) => connect(`mqtt://127.0.0.1:${port}`));
    open.push({
      [Symbol.asyncDispose]: async () => void (await Promise.all(watchers.map((one) => one.endAsync(true)))),
    });
    const wills: string[] = [];
    for (const watcher of watchers) {
      watcher.on('message', (_topic, message) => void wills.push(String(message)));
      await watcher.subscribeAsync('wills');
    }
    let lost = 0;
    for (const client of clients) client.on('close', () => void lost++);
    leave();
    await until('two moved', () => lost === 2 && clients.every(({ connected }) => connected));
    expect(counts(connector)).toEqual([3, 3]);
    // Each broker tells its own: they are not clustered.
    await until('all are subscribed again', async () => {
      for (const watcher of watchers) await watcher.publishAsync('prices', 'now', { qos: 1 });
      return new Set(heard).size === 6;
    });
    expect(wills).toEqual([]);
    // A will is published when its client is cut: the test sees it if there is one.
    clients[0]?.stream.destroy();
    await until('the will of the one that was cut', () => wills.includes('will 0'));
    await Promise.all(clients.map((client) => client.endAsync(true)));
  },
);

it.skipIf(isMissing('memcached'))(
  titled('memcached', 'Memcached: a connection goes to the emptiest server, and leaves with quit'),
  async () => {
    const { connector, leave } = await world('memcached', {
      closeLeaving: true,
      finish: (socket) => socket.end('quit\r\n'),
    });
    const sockets = await Promise.all(Array.from({ length: 6 }, () => connector.connect()));
    expect(counts(connector)).toEqual([2, 2, 2]);
    let ended = 0;
    for (const [index, socket] of sockets.entries()) {
      const ask = async (command: string): Promise<string> => {
        socket.write(command);
        return String((await once(socket, 'data'))[0]);
      };
      expect(await ask(`set greeting${index} 0 60 5\r\nhello\r\n`)).toBe('STORED\r\n');
      expect(await ask(`get greeting${index}\r\n`)).toContain('hello');
      socket.on('error', () => {});
      socket.on('close', (hadError) => {
        ended += hadError ? 100 : 1;
      });
      socket.resume();
    }
    leave();
    await until('two have left', () => ended === 2);
    expect(counts(connector)).toEqual([2, 2]);
  },
);

it.skipIf(isMissing('aiosmtpd'))(
  titled('aiosmtpd', 'SMTP: the pooled connections of nodemailer are spread, and no mail is lost when a server leaves'),
  async () => {
    const { connector, leave } = await world('aiosmtpd', {
      closeLeaving: true,
      finish: (socket) => socket.end('QUIT\r\n'),
    });
    const mail = createTransport({
      pool: true,
      maxConnections: 6,
      host: 'mail.shop',
      port: 25,
      ignoreTLS: true,
      getSocket: (_options: unknown, callback: (error: Error | null, found?: object) => void) => {
        connector.connect().then((connection) => callback(null, { connection }), callback);
      },
    });
    const send = async (number: number): Promise<string> => {
      const { response } = await mail.sendMail({
        from: 'shop@shop.test',
        to: 'customer@shop.test',
        subject: `order ${number}`,
        text: 'thank you',
      });
      return response.slice(0, 3);
    };
    // One that meets a connection as it leaves was not accepted.
    const sendAgain = (number: number): Promise<string> => send(number).catch(() => send(number));
    expect(new Set(await Promise.all(Array.from({ length: 60 }, (_, number) => send(number))))).toEqual(
      new Set(['250']),
    );
    expect(counts(connector)).toEqual([2, 2, 2]);
    leave();
    await until('two have left', () => counts(connector).length === 2);
    expect(new Set(await Promise.all(Array.from({ length: 60 }, (_, number) => sendAgain(number))))).toEqual(
      new Set(['250']),
    );
    const left = counts(connector);
    expect(Math.max(...left) - Math.min(...left)).toBeLessThanOrEqual(1);
    mail.close();
    await until('all are closed', () => counts(connector).every((count) => count === 0));
  },
);

it.skipIf(isMissing('OpenLDAP'))(
  titled('OpenLDAP', 'LDAP: ldapts connects to the emptiest server, and uses another when its own leaves'),
  async () => {
    const { connector, leave } = await world('OpenLDAP', {
      closeLeaving: true,
      // UnbindRequest.
      finish: (socket) => socket.end(Buffer.from([0x30, 0x05, 0x02, 0x01, 0x7f, 0x42, 0x00])),
    });
    const clients = Array.from(
      { length: 6 },
      () => new LdapClient({ url: 'ldap://ldap.shop', createConnection: () => connector.createConnection() as never }),
    );
    const ask = async (client: LdapClient): Promise<unknown> => {
      const { searchEntries } = await client.search('', { scope: 'base', attributes: ['monitorContext'] });
      return searchEntries[0]?.monitorContext;
    };
    expect(await Promise.all(clients.map(ask))).toEqual(clients.map(() => 'cn=Monitor'));
    expect(counts(connector)).toEqual([2, 2, 2]);
    leave();
    await until('two have left', () => clients.filter(({ isConnected }) => !isConnected).length === 2);
    expect(await Promise.all(clients.map(ask))).toEqual(clients.map(() => 'cn=Monitor'));
    expect(counts(connector)).toEqual([3, 3]);
    await Promise.all(clients.map((client) => client.unbind()));
    await until('all are closed', () => counts(connector).every((count) => count === 0));
  },
);

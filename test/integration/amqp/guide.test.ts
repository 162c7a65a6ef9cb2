import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { noRabbitmq, type RabbitWorld, startBrokers, titled } from '../../support/databases/rabbitmq.js';
import { calledAfterEach } from '../../support/opened.js';
import { buildPackage, guidePrograms, outputOfModule, root } from '../../support/programs/programs.js';
import { until } from '../../support/until.js';

const libraries = ['amqp-connection-manager', 'rabbitmq-client', 'amqplib'];
const programs = guidePrograms('amqp', 'ts').map(({ source }, index) => ({ library: libraries[index], source }));

/** The way to a broker, which can be closed and opened again. */
class Gate {
  /** Listens nowhere else, so that no outgoing connection takes its port while it is closed. */
  readonly #address = '127.0.0.77';
  readonly #broker: RabbitWorld['endpoints'][number];
  readonly #sockets = new Set<Socket>();
  #server: Server | undefined;
  #port = 0;

  constructor(broker: RabbitWorld['endpoints'][number]) {
    this.#broker = broker;
  }

  get place(): string {
    return `${this.#address}:${this.#port}`;
  }

  /** Connections that have got something from the broker. */
  get connected(): number {
    return [...this.#sockets].filter(({ bytesWritten }) => bytesWritten > 0).length;
  }

  async open(): Promise<void> {
    this.#server = createServer((socket) => {
      const { address, port } = this.#broker;
      const behind = connect(port, address);
      this.#sockets.add(socket);
      for (const [from, to] of [
        [socket, behind],
        [behind, socket],
      ] as const) {
        from.pipe(to);
        from.on('error', () => {});
        from.on('close', () => to.destroy());
      }
      socket.on('close', () => this.#sockets.delete(socket));
    });
    this.#server.listen(this.#port, this.#address);
    await once(this.#server, 'listening');
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  close(): void {
    this.#server?.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}

/** Stops a program before it closes anything, and again once brokers were gone for longer than a call waits, twice. */
const outage = `
console.log('sent');
const told = () => new Promise((resolve) => process.stdin.once('data', resolve));
await told();
for (let refused = 0; refused < 2; ) {
  await brokers.balancer.acquire().then(
    (lease) => lease.end({ kind: 'cancelled' }),
    () => refused++,
  );
  await new Promise((resolve) => setImmediate(resolve));
}
console.log('refused');
await told();
process.stdin.destroy();
`;

describe.skipIf(noRabbitmq)(titled('the programs of the guide to AMQP'), () => {
  let world: RabbitWorld;
  beforeAll(async () => {
    await buildPackage();
    world = await startBrokers(1);
    await world.at(0).control('add_user', 'shop', 'secret');
    await world.at(0).control('set_permissions', 'shop', '.*', '.*', '.*');
  }, 240_000);
  afterAll(() => world?.close());

  const open = calledAfterEach();

  const at = (place: string, source: string): string => source.replace('rabbit.shop:5672', place);

  it('there is one for each library', () => {
    expect(programs.map(({ library }) => library)).toEqual(libraries);
  });

  it.each(programs)('$library: it sends its message and ends', async ({ source }) => {
    const { address, port } = world.at(0).endpoint;
    expect(await outputOfModule(at(`${address}:${port}`, source))).toBe('');
  });

  it('each goes on after its brokers were gone for longer than a call waits', async () => {
    const goesOn = async ({ library, source }: (typeof programs)[number]): Promise<void> => {
      const gate = new Gate(world.at(0).endpoint);
      open.push(() => gate.close());
      await gate.open();
      const program = at(gate.place, source).replace(
        /^await (orders|brokers)\.close\(\)/m,
        (line) => `${outage}${line}`,
      );
      const child: ChildProcess = spawn(process.execPath, ['--input-type=module', '-e', program], { cwd: root });
      open.push(() => child.kill('SIGKILL'));
      let output = '';
      let errors = '';
      child.stdout?.on('data', (chunk) => {
        output += chunk;
      });
      child.stderr?.on('data', (chunk) => {
        errors += chunk;
      });
      const says = (text: string) =>
        until(`${library} says ${text}`, () => {
          // Not before it is needed to know why.
          if (child.exitCode !== null) expect([library, child.exitCode, errors]).toBe(text);
          return output.includes(text);
        });
      await says('sent');
      gate.close();
      child.stdin?.write('gone');
      await says('refused');
      await gate.open();
      await until(`${library} is connected again`, () => gate.connected > 0);
      child.stdin?.write('back');
      const [code] = await once(child, 'exit');
      expect(code, `${library}: ${errors}`).toBe(0);
    };
    await Promise.all(programs.map(goesOn));
  });
});

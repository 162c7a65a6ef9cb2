/** What the benchmarks of a fleet rest on: that every contender's calls do their work on its pods, over each protocol. */

import { afterEach, expect, it } from 'vitest';

interface Child {
  readonly said: { readonly ports: readonly number[] };
  readonly port: number;
  stop(): void;
}
interface Contender {
  call(workMs: number): Promise<unknown>;
  renew?(): void;
  close(): Promise<unknown>;
}

const lib = (file: string) => import(new URL(`../../bench/lib/${file}`, import.meta.url).href);
const { startChild } = (await lib('children.mjs')) as {
  startChild(name: string, args: readonly string[]): Promise<Child>;
};
const { createContender } = (await lib('fleet-contenders.mjs')) as {
  createContender(placed: object): Promise<Contender>;
};

const children: Child[] = [];
async function start(name: string, args: readonly string[]): Promise<Child> {
  const child = await startChild(name, args);
  children.push(child);
  return child;
}
afterEach(() => {
  for (const child of children.splice(0)) child.stop();
});

const WORK_MS = 30;
const PODS = 2;

it.each([
  ['http', 'stock'],
  ['http', 'default'],
  ['http', 'roundRobin'],
  ['grpc', 'stock'],
  ['grpc', 'roundRobin'],
  ['grpc', 'default'],
  ['postgres', 'stock'],
  ['postgres', 'poolPerServer'],
  ['postgres', 'default'],
])(
  '%s, %s: calls take their work, shared with the others on the pod, and none is lost in a renewal',
  async (protocol, kind) => {
    const { said } = await start('virtual-pods.mjs', [String(PODS), protocol, '0', '']);
    const balancer = kind === 'stock' ? await start('connection-balancer.mjs', said.ports.map(String)) : undefined;
    const ports = balancer === undefined ? said.ports : [balancer.port];
    const contender = await createContender({ protocol, kind, ports });
    // Its connections are open from here on.
    await contender.call(1);
    const calls = 3 * PODS;
    const beganMs = performance.now();
    await Promise.all(Array.from({ length: calls }, () => contender.call(WORK_MS)));
    // All the work at once on all the cores: it cannot have taken less, on however slow a machine.
    expect(performance.now() - beganMs).toBeGreaterThan((calls * WORK_MS) / PODS - 5);
    const running = contender.call(WORK_MS);
    contender.renew?.();
    await Promise.all([running, contender.call(1)]);
    await contender.close();
  },
);

it('there is no contender of a name that is misspelt', async () => {
  await expect(createContender({ protocol: 'grpc', kind: 'rondRobin', ports: [] })).rejects.toThrow('no rondRobin');
});

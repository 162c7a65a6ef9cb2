import { execFile, spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { buildPackage } from '../../support/programs/programs.js';
import { titleOf } from '../../support/title-of.js';

beforeAll(buildPackage);

const program = fileURLToPath(new URL('./addresses-program.mjs', import.meta.url));
const pods = [1, 2, 3, 4, 5, 6, 7, 8];

/** Makes a network of its own with one interface, with these addresses, and runs a command there. */
function inNamespace(setUp: readonly string[], command: string): string[] {
  const lines = [
    'ip link set lo up',
    'ip link add eth0 type veth peer name peer0',
    'ip link set peer0 up',
    'ip link set eth0 up',
    ...setUp,
    `exec ${command}`,
  ];
  return ['-Urn', 'sh', '-c', lines.join(' && ')];
}

const add = (address: string): string => `ip addr add ${address} dev eth0${address.includes(':') ? ' nodad' : ''}`;
const ipv6 = ['fd00::1', ...pods.map((pod) => `fd00::${10 + pod}`)].map((address) => add(`${address}/64`));
const ipv4 = ['10.77.0.1', ...pods.map((pod) => `10.77.0.${10 + pod}`)].map((address) => add(`${address}/24`));
const mayMake = spawnSync('unshare', inNamespace([...ipv4, ...ipv6], 'true'), { timeout: 120_000 }).status === 0;
const needs = 'it needs Linux with iproute2 and the permission to make network namespaces';

async function run(world: 'ipv6' | 'dual', setUp: readonly string[]): Promise<Record<string, unknown>> {
  const command = `'${process.execPath}' '${program}' ${world}`;
  const { stdout } = await promisify(execFile)('unshare', inNamespace(setUp, command), { timeout: 240_000 });
  return JSON.parse(stdout) as Record<string, unknown>;
}

describe.runIf(mayMake)(titleOf('in a network of its own', mayMake, needs), () => {
  it('S3: a host without IPv4 uses the IPv6 addresses of a Service that has both, by slices and by DNS', async () => {
    const found = await run('ipv6', ['ip addr del 127.0.0.1/8 dev lo', ...ipv6]);
    expect(new Set(found.interfaces as string[])).toEqual(new Set(['IPv6']));
    const evenly = { 'pod-1': 20, 'pod-2': 20, 'pod-3': 20, failed: 0 };
    expect(found.slices).toEqual(evenly);
    expect(found.dns).toEqual(evenly);
    expect(found.shown).toEqual({
      'orders-1': ['ready', '[fd00::11]:8080'],
      'orders-2': ['ready', '[fd00::12]:8080'],
      'orders-3': ['ready', '[fd00::13]:8080'],
    });
    expect(found.warnings).toEqual(['shop/orders has IPv4 addresses alone, and this host has none of that family']);
    expect(found.ipv4Alone).toEqual({ failed: 2 });
  });

  it('S3: on a host with both a pod is one endpoint with two addresses', async () => {
    const found = await run('dual', [...ipv4, ...ipv6]);
    expect(found.both).toEqual({ 'pod-1': 20, 'pod-2': 20, 'pod-3': 20, failed: 0 });
    // One connection to each, all over IPv4.
    expect(found.connectionsOfBoth).toEqual({ 'pod-1': [1, 0], 'pod-2': [1, 0], 'pod-3': [1, 0], 'pod-4': [0, 0] });

    expect(found.changing).toBe(0);
    expect(found.second).toEqual({ 'pod-1': 20, 'pod-2': 20, 'pod-3': 20, failed: 0 });
    expect(found.shown).toEqual({
      'orders-1': ['ready', '10.77.0.11:8080', '[fd00::11]:8080'],
      'orders-2': ['ready', '[fd00::12]:8080', '10.77.0.12:8080'],
      'orders-3': ['ready', '10.77.0.13:8080', '[fd00::13]:8080'],
    });

    expect(found.late).toEqual({ 'pod-1': 20, 'pod-2': 20, 'pod-3': 20, 'pod-4': 20, failed: 0 });
    expect(found.connectionsOfLate).toEqual([0, 1]);
    expect(found.most).toBe(4);

    expect(found.without).toEqual({ 'pod-1': 20, 'pod-3': 20, 'pod-4': 20, failed: 0 });
    expect(found).toMatchObject({ failedInRollout: 0, isDoubled: false });
    expect(found.newConnections).toEqual({ 'pod-1': [0, 0], 'pod-2': [0, 0], 'pod-3': [0, 0], 'pod-4': [1, 0] });
  });
});

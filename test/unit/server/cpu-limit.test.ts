import { availableParallelism } from 'node:os';
import { describe, expect, it } from 'vitest';
import { cpuBudget } from '../../../src/server/report/cpu-limit.js';

/** A file system of these files. */
const files =
  (texts: Readonly<Record<string, string>>) =>
  async (path: string): Promise<string | undefined> =>
    texts[path];

describe('the CPU limit', () => {
  it('in a container is that at the root of its cgroup with the time of all its processes', async () => {
    const budget = await cpuBudget(
      files({
        '/proc/self/cgroup': '0::/\n',
        '/sys/fs/cgroup/cpu.max': '150000 100000\n',
        '/sys/fs/cgroup/cpu.stat': 'usage_usec 2500000\nuser_usec 2000000\n',
      }),
    );
    expect(budget.cores).toBe(1.5);
    expect(await budget.usedMs()).toBe(2_500);
  });

  it('is the tightest limit of all parents', async () => {
    const budget = await cpuBudget(
      files({
        '/proc/self/cgroup': '0::/kubepods/pod1/app\n',
        '/sys/fs/cgroup/kubepods/pod1/app/cpu.max': 'max 100000\n',
        '/sys/fs/cgroup/kubepods/pod1/cpu.max': '50000 100000\n',
        '/sys/fs/cgroup/kubepods/pod1/cpu.stat': 'usage_usec 1000\n',
        '/sys/fs/cgroup/kubepods/cpu.max': '400000 100000\n',
      }),
    );
    expect(budget.cores).toBe(0.5);
    expect(await budget.usedMs()).toBe(1);
  });

  it('is found where the kernel gives a path in another namespace', async () => {
    const budget = await cpuBudget(
      files({
        '/proc/self/cgroup': '0::/../../pod1/app\n',
        '/sys/fs/cgroup/cpu.max': '200000 100000\n',
        '/sys/fs/cgroup/cpu.stat': 'usage_usec 1000\n',
      }),
    );
    expect(budget.cores).toBe(2);
  });

  it.each([
    ['no cgroups', {}],
    ['no limit', { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': 'max 100000\n' }],
    ['cgroups v1', { '/proc/self/cgroup': '4:cpu:/\n', '/sys/fs/cgroup/cpu/cpu.cfs_quota_us': '50000\n' }],
    ['nonsense', { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': '0 0\n' }],
  ])('with %s is the number of cores of the node, with the time of this process', async (_name, texts) => {
    const budget = await cpuBudget(files(texts));
    expect(budget.cores).toBe(availableParallelism());
    expect(await budget.usedMs()).toBeGreaterThan(0);
  });

  it('has no usage for a while if the files cannot be read any more', async () => {
    const texts: Record<string, string> = {
      '/proc/self/cgroup': '0::/\n',
      '/sys/fs/cgroup/cpu.max': '100000 100000\n',
    };
    expect(await (await cpuBudget(files(texts))).usedMs()).toBeUndefined();
  });
});

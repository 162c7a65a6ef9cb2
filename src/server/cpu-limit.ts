import { promises } from 'node:fs';
import { availableParallelism } from 'node:os';

/** Reads small files; undefined for one that is missing or unreadable. */
export type ReadText = (path: string) => Promise<string | undefined>;

export const readText: ReadText = async (path) => {
  try {
    return await promises.readFile(path, 'utf8');
  } catch {
    return undefined;
  }
};

/** The CPU this pod may use, and how much it has used. */
export interface CpuBudget {
  /** How many cores the process may use, including fractions. */
  readonly cores: number;
  /** CPU time used so far by everything under the limit, in ms; undefined if it can no longer be read. */
  usedMs(): Promise<number | undefined>;
}

/** The folder at which Linux mounts cgroups. */
const ROOT = '/sys/fs/cgroup';

/**
 * The tightest CPU limit of this process's cgroups (v2 or v1), with the time used by all processes in that cgroup. Without a limit:
 * the node's cores, and the time of this process alone.
 */
export async function cpuBudget(read: ReadText): Promise<CpuBudget> {
  const own = (await read('/proc/self/cgroup')) ?? '';
  return (await budgetV2(read, own)) ?? (await budgetV1(read, own)) ?? noLimit;
}

const noLimit: CpuBudget = {
  cores: availableParallelism(),
  usedMs: async () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1_000;
  },
};

/** The CPU limit of cgroups v2. `cpu.max` is `quota period` in µs, or `max period`. A host's root has none. */
async function budgetV2(read: ReadText, own: string): Promise<CpuBudget | undefined> {
  const path = /^0::(.*)/m.exec(own)?.[1];
  if (path === undefined) return undefined;
  let tightest: CpuBudget | undefined;
  for (const folder of upwards(path)) {
    const [quota, period] = ((await read(`${ROOT}${folder}/cpu.max`)) ?? '').trim().split(/\s+/).map(Number);
    const cores = coresOf(quota, period);
    if (cores === undefined || cores >= (tightest?.cores ?? Number.POSITIVE_INFINITY)) continue;
    const usage = `${ROOT}${folder}/cpu.stat`;
    const usedMs = async (): Promise<number | undefined> => {
      const text = await read(usage);
      const microseconds = text === undefined ? undefined : /^usage_usec (\d+)$/m.exec(text)?.[1];
      return microseconds === undefined ? undefined : Number(microseconds) / 1_000;
    };
    tightest = { cores, usedMs };
  }
  return tightest;
}

/** Reads the cgroup's path from lines such as `4:cpu,cpuacct:/kubepods/pod1`. */
function pathOfCpu(own: string): string | undefined {
  for (const line of own.split('\n')) {
    const [, controllers = '', ...path] = line.split(':');
    if (controllers.split(',').includes('cpu')) return path.join(':');
  }
  return undefined;
}

/** The CPU limit of cgroups v1. Quota and period are separate files, in µs; a quota of -1 means no limit. */
async function budgetV1(read: ReadText, own: string): Promise<CpuBudget | undefined> {
  const path = pathOfCpu(own);
  if (path === undefined) return undefined;
  let tightest: CpuBudget | undefined;
  for (const folder of upwards(path)) {
    for (const mount of ['cpu,cpuacct', 'cpu']) {
      const base = `${ROOT}/${mount}${folder}`;
      const quota = await read(`${base}/cpu.cfs_quota_us`);
      if (quota === undefined) continue;
      const cores = coresOf(Number(quota), Number(await read(`${base}/cpu.cfs_period_us`)));
      if (cores === undefined || cores >= (tightest?.cores ?? Number.POSITIVE_INFINITY)) continue;
      const usedMs = async (): Promise<number | undefined> => {
        const text = (await read(`${base}/cpuacct.usage`)) ?? (await read(`${ROOT}/cpuacct${folder}/cpuacct.usage`));
        const nanoseconds = Number(text?.trim() || Number.NaN);
        return Number.isFinite(nanoseconds) ? nanoseconds / 1_000_000 : undefined;
      };
      tightest = { cores, usedMs };
    }
  }
  return tightest;
}

function coresOf(quota: number | undefined, period: number | undefined): number | undefined {
  const cores = Number(quota) / Number(period);
  return cores > 0 && Number.isFinite(cores) ? cores : undefined;
}

/**
 * The path of a cgroup and its parents: `/a/b`, `/a`, and the root as ''. In a container the root is the container's own, whatever path the
 * kernel reports.
 */
function upwards(path: string): string[] {
  const folders: string[] = [];
  // A path from another namespace starts with `/..`; then only the root can be read.
  const parts = path.split('/').filter((part) => part !== '' && part !== '..' && part !== '.');
  for (let length = parts.length; length >= 0; length--)
    folders.push(
      parts
        .slice(0, length)
        .map((p) => `/${p}`)
        .join(''),
    );
  return folders;
}

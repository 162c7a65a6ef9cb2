import { promises } from 'node:fs';
import { availableParallelism } from 'node:os';

/** Reads small files; undefined for one that is not there or may not be read. */
export type ReadText = (path: string) => Promise<string | undefined>;

export const readText: ReadText = async (path) => {
  try {
    return await promises.readFile(path, 'utf8');
  } catch {
    return undefined;
  }
};

/** What this pod may use of the CPU, and what it has used so far. */
export interface CpuBudget {
  /** Cores, fractions included. */
  readonly cores: number;
  /** CPU time used so far by all that shares the limit, in ms; undefined if it cannot be read any more. */
  usedMs(): Promise<number | undefined>;
}

/** Where cgroups are mounted. */
const ROOT = '/sys/fs/cgroup';

/**
 * The tightest CPU limit of the cgroups this process is in (v2 or v1), with the time all processes in that cgroup have used. Without a
 * limit: the cores of the node, and the time of this process alone.
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

/** `cpu.max` is `quota period` in µs, or `max period`. The root of a host has none. */
async function budgetV2(read: ReadText, own: string): Promise<CpuBudget | undefined> {
  const path = /^0::(.*)$/m.exec(own)?.[1];
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

/** Quota and period are files of their own, in µs; a quota of -1 is no limit. */
async function budgetV1(read: ReadText, own: string): Promise<CpuBudget | undefined> {
  const path = /^\d+:(?:[^:]*,)?cpu(?:,[^:]*)?:(.*)$/m.exec(own)?.[1];
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
 * A folder and those above it: `/a/b`, `/a`, and the root as ''. In a container the root is the container's own, whatever path the
 * kernel says.
 */
function upwards(path: string): string[] {
  const folders: string[] = [];
  // A path from another namespace begins with `/..`; only the root can be read then.
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

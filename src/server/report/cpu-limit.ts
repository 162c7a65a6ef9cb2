import { promises } from 'node:fs';
import { availableParallelism } from 'node:os';

/** Reads a small file; undefined if it is missing or unreadable. */
export type ReadText = (path: string) => Promise<string | undefined>;

export const readText: ReadText = async (path) => {
  try {
    return await promises.readFile(path, 'utf8');
  } catch {
    return undefined;
  }
};

/** How much CPU this pod may use, and how much it has used. */
export interface CpuBudget {
  /** How many cores the pod may use, including fractions. */
  readonly cores: number;
  /** Returns the CPU time that everything under this limit has used so far, in ms; undefined if it can no longer be read. */
  usedMs(): Promise<number | undefined>;
}

/** The folder at which Linux mounts cgroups. */
const ROOT = '/sys/fs/cgroup';

/**
 * Finds the tightest CPU limit of this process's cgroups (v2), and the CPU time that all processes in that cgroup use. Without a limit, it
 * is the node's cores, and the time of this process alone.
 */
export async function cpuBudget(read: ReadText): Promise<CpuBudget> {
  const own = (await read('/proc/self/cgroup')) ?? '';
  return (await limitOf(read, own)) ?? noLimit;
}

const noLimit: CpuBudget = {
  cores: availableParallelism(),
  usedMs: async () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1_000;
  },
};

/**
 * A file `cpu.max` contains `quota period` in µs, or `max period`. The root cgroup of a host has no such file.
 */
async function limitOf(read: ReadText, own: string): Promise<CpuBudget | undefined> {
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

function coresOf(quota: number | undefined, period: number | undefined): number | undefined {
  const cores = Number(quota) / Number(period);
  return cores > 0 && Number.isFinite(cores) ? cores : undefined;
}

/**
 * Returns the path of a cgroup and those of its parents: `/a/b`, `/a`, and '' for the root. Inside a container the root is the container's
 * own cgroup, whatever path the kernel reports.
 */
function upwards(path: string): string[] {
  const folders: string[] = [];
  // The path of a cgroup in another namespace starts with `/..`; then only the root can be read.
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

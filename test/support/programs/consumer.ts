import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../..', import.meta.url));

export interface ProgramResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end; a failure is a result too. */
export function runProgram(
  command: string,
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): Promise<ProgramResult> {
  return new Promise((resolve) => {
    execFile(command, args, { cwd, env: { ...process.env, ...env } }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), stdout, stderr });
    });
  });
}

const writeManifest = (folder: string): Promise<void> =>
  writeFile(join(folder, 'package.json'), JSON.stringify({ name: 'consumer', private: true, type: 'module' }));

/** Has npm install the packed package, and nothing else, in an empty folder; returns its `node_modules`. */
export async function installPacked(tarball: string, folder: string): Promise<string> {
  await writeManifest(folder);
  const flags = ['--offline', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  const installed = await runProgram('npm', ['install', ...flags, tarball], folder);
  if (installed.code !== 0) throw new Error(`npm install failed:\n${installed.stderr}`);
  return join(folder, 'node_modules');
}

/** Packages from this repository's node_modules; a pair has a different name there. */
export type Links = readonly (string | readonly [name: string, here: string])[];

/** Links packages into the `node_modules` of a folder. */
export async function linkPackages(folder: string, links: Links): Promise<void> {
  for (const given of links) {
    const [name, here] = typeof given === 'string' ? [given, given] : given;
    const link = join(folder, 'node_modules', name);
    await mkdir(dirname(link), { recursive: true });
    await symlink(join(root, 'node_modules', here), link, 'junction');
  }
}

/** A user's project: an empty folder with only the packed package installed. */
export class Consumer {
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  /**
   * @param installed `node_modules` of a project in which npm installed the package (`installPacked`).
   * @param links See `linkPackages`.
   * @param given Its folder, which is there already. @defaultValue a new one
   */
  static async create(installed: string, links: Links = [], given?: string): Promise<Consumer> {
    const folder = given ?? (await mkdtemp(join(tmpdir(), 'evenkeel-consumer-')));
    await writeManifest(folder);
    await cp(installed, join(folder, 'node_modules'), { recursive: true });
    await linkPackages(folder, links);
    return new Consumer(folder);
  }

  /** Runs a program of this project. */
  async run(fileName: string, source: string, nodeArgs: readonly string[] = []): Promise<ProgramResult> {
    await writeFile(join(this.folder, fileName), source);
    return runProgram(process.execPath, [...nodeArgs, fileName], this.folder);
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }
}

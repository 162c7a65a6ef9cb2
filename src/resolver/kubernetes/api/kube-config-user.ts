import { promises as fs } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { isObject, textOf } from './unchecked.js';

/** A user's entry in the kubeconfig, read by evenkeel itself: `@kubernetes/client-node` drops every key that it does not know. */
export interface UserEntry {
  readonly name: string;
  /** All keys of the user's entry, including those that evenkeel does not understand. */
  readonly keys: readonly string[];
  /** The absolute path of the user's token file. The kubeconfig may have a relative path, which is relative to the kubeconfig itself. */
  readonly tokenFile: string | undefined;
}

/** The paths of the kubeconfig files that kubectl reads if none is given. */
export function defaultPaths(env: Readonly<Record<string, string | undefined>> = process.env): readonly string[] {
  const named = (env.KUBECONFIG ?? '').split(delimiter).filter((path) => path !== '');
  return named.length > 0 ? named : [join(homedir(), '.kube', 'config')];
}

/**
 * Searches kubeconfig files for a user and returns the first entry with that name. Unreadable files are skipped. Rejects only for invalid
 * YAML.
 */
export async function readUserEntry(
  paths: readonly string[],
  name: string,
  loadYaml: (text: string) => unknown,
): Promise<UserEntry | undefined> {
  for (const path of paths) {
    const text = await fs.readFile(path, 'utf8').catch(() => '');
    if (text.trim() === '') continue;
    const file = loadYaml(text);
    const users = isObject(file) && Array.isArray(file.users) ? (file.users as readonly unknown[]) : [];
    const found = users.find((each) => isObject(each) && each.name === name);
    if (!isObject(found)) continue;
    const entry = isObject(found.user) ? found.user : {};
    const tokenFile = textOf(entry.tokenFile);
    return {
      name,
      keys: Object.keys(entry).filter((key) => entry[key] !== null && entry[key] !== ''),
      tokenFile: tokenFile === undefined ? undefined : resolve(dirname(path), tokenFile),
    };
  }
  return undefined;
}

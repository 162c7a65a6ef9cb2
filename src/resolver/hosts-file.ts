import { promises as fs } from 'node:fs';
import { type Clock, inBackground } from '../runtime/clock.js';
import { type ClusterFiles, searchList } from './cluster-domain.js';

/** How often it is checked whether the file has changed, in ms. It is checked only when a name is asked for. */
const CHECK_MS = 5_000;

/**
 * The names in `/etc/hosts`, such as those of a pod's `hostAliases`. Everybody else looks there before asking DNS, so a name that is in it
 * is not a Service's, whatever DNS says. Only host names are read; a file that is not there counts as empty.
 */
export class HostsFile {
  readonly #clock: Clock;
  readonly #files: ClusterFiles;
  #names: ReadonlySet<string> = new Set();
  /** The search list of resolv.conf, by which short names are completed. */
  #search: readonly string[] = [];
  /** Identifies the content that was read last. */
  #version = '';
  #checkedAtMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, files: ClusterFiles = {}) {
    this.#clock = clock;
    this.#files = files;
  }

  /** Reads the file if it has changed. Never rejects. */
  async read(): Promise<void> {
    this.#checkedAtMs = this.#clock.now();
    const { hostsPath = '/etc/hosts', resolvConfPath = '/etc/resolv.conf' } = this.#files;
    try {
      const stats = await fs.stat(hostsPath);
      if (!stats.isFile()) return;
      const { mtimeMs, size, ino } = stats;
      const version = `${mtimeMs} ${size} ${ino}`;
      if (version === this.#version) return;
      const [hosts, resolvConf] = await Promise.all([
        fs.readFile(hostsPath, 'utf8'),
        fs.readFile(resolvConfPath, 'utf8').catch(() => ''),
      ]);
      this.#version = version;
      this.#names = namesIn(hosts);
      this.#search = searchList(resolvConf);
    } catch (error) {
      // What else prevents reading it may pass, for example that the process has too many files open.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') return;
      this.#version = '';
      this.#names = new Set();
    }
  }

  /** Whether the file has the name, as it is written or completed by the search list. If it may have changed, it is read for later calls. */
  has(host: string): boolean {
    if (this.#clock.now() - this.#checkedAtMs >= CHECK_MS) inBackground(() => void this.read());
    if (this.#names.size === 0) return false;
    const isAbsolute = host.endsWith('.');
    const name = (isAbsolute ? host.slice(0, -1) : host).toLowerCase();
    if (this.#names.has(name)) return true;
    return !isAbsolute && this.#search.some((entry) => this.#names.has(`${name}.${entry}`));
  }
}

/** The names in the text of a hosts file: `address name alias … # comment` in each line. */
function namesIn(hosts: string): ReadonlySet<string> {
  const names = new Set<string>();
  for (const line of hosts.split('\n')) {
    const [, ...all] = (line.split('#', 1)[0] as string).trim().split(/\s+/);
    for (const name of all) names.add(name.toLowerCase().replace(/\.$/, ''));
  }
  return names;
}

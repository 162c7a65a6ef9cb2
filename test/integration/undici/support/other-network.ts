import { spawnSync } from 'node:child_process';

const ip = (...args: string[]): boolean => spawnSync('ip', args, { stdio: 'ignore' }).status === 0;

/** A network of its own on this machine, joined by a cable that can be pulled. Needs Linux, root and `ip`. */
export class OtherNetwork implements Disposable {
  /** The address in there. */
  readonly address: string;
  /** What starts a process in there. */
  readonly command: readonly string[];
  readonly #name: string;

  private constructor(name: string, address: string) {
    this.#name = name;
    this.address = address;
    this.command = ['ip', 'netns', 'exec', name];
  }

  /** Undefined where this machine does not let us. */
  static create(): OtherNetwork | undefined {
    // Names and addresses by process, so that two runs at once do not meet.
    const name = `evenkeel-${process.pid}`;
    const [here, there] = [`ek${process.pid}h`, `ek${process.pid}t`];
    const net = `10.${200 + (process.pid % 50)}.${(process.pid >> 6) % 250}`;
    const made =
      ip('netns', 'add', name) &&
      ip('link', 'add', here, 'type', 'veth', 'peer', 'name', there, 'netns', name) &&
      ip('addr', 'add', `${net}.1/30`, 'dev', here) &&
      ip('link', 'set', here, 'up') &&
      ip('-n', name, 'addr', 'add', `${net}.2/30`, 'dev', there) &&
      ip('-n', name, 'link', 'set', 'lo', 'up') &&
      ip('-n', name, 'link', 'set', there, 'up');
    if (made) return new OtherNetwork(name, `${net}.2`);
    ip('netns', 'del', name);
    return undefined;
  }

  /** From now on nothing gets there and nothing comes back: no FIN, no reset. */
  pullCable(): void {
    ip('-n', this.#name, 'link', 'set', `ek${process.pid}t`, 'down');
  }

  [Symbol.dispose](): void {
    // It would go with its network, but only when the last process in there has.
    ip('link', 'del', `ek${process.pid}h`);
    ip('netns', 'del', this.#name);
  }
}

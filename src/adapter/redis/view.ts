/** What a view of a Redis client is, whichever library it comes from: its reads go elsewhere, all else is the client's own. */
import type { ReplicasSettings } from './options.js';

/** A read of the application: one command, or a pipeline, as the Redis library has it. */
export interface Read {
  /** Sends the read to a replica. */
  send(client: unknown, attempt: ReadAttempt): void;
  failed(error: Error): void;
  /** Sends the read to the primary, whose answer the caller gets. */
  sendToPrimary(): void;
}

/** One attempt of a read on a replica. Either `answered` or `failed` is called, once. */
export interface ReadAttempt {
  /** The replica answered; the read settles its caller's promise afterwards. */
  answered(): void;
  /** The replica answered with an error, or did not answer. The read may be sent again. */
  failed(error: unknown): void;
}

/** What the view of a Redis client needs from the replicas it reads from. */
export interface ViewParts {
  readonly settings: ReplicasSettings;
  readonly read: (read: Read) => void;
  readonly close: (signal?: AbortSignal) => Promise<void>;
}

// biome-ignore lint/suspicious/noExplicitAny: a method of any client.
export type Method = (...args: any[]) => any;

/**
 * Creates a view of a client in which the methods that `replaced` returns take the place of the client's own. Everything else is the
 * client's: state, events, other methods, and later changes by the application.
 */
export function viewOf<C extends object>(
  client: C,
  replaced: (name: string, original: Method, view: C) => Method | undefined,
): C {
  const methods = new Map<PropertyKey, { readonly original: unknown; readonly method: Method }>();
  const patched = (property: PropertyKey, method: unknown): boolean => {
    const entry = methods.get(property);
    if (entry === undefined || typeof method !== 'function') return false;
    methods.set(property, { original: entry.original, method: method as Method });
    return true;
  };
  const view: C = new Proxy(client, {
    get(_, property) {
      const original: unknown = Reflect.get(client, property, client);
      if (typeof original !== 'function' || property === 'constructor') return original;
      let entry = methods.get(property);
      if (entry?.original !== original) {
        const bound = (...args: unknown[]): unknown => {
          const result: unknown = original.apply(client, args);
          return result === client ? view : result;
        };
        const method = typeof property === 'string' ? replaced(property, original as Method, view) : undefined;
        entry = { original, method: method ?? bound };
        methods.set(property, entry);
      }
      return entry.method;
    },
    // A method that the application patches on the view is set on the view alone: set on the client, it would call itself.
    set: (_, property, value: unknown) => patched(property, value) || Reflect.set(client, property, value, client),
    defineProperty: (_, property, descriptor) =>
      patched(property, descriptor.value) || Reflect.defineProperty(client, property, descriptor),
  });
  return view;
}

const ENDS_HOLD: ReadonlySet<string> = new Set(['exec', 'discard', 'unwatch']);

/** Whether reads must stay on the primary: from WATCH or MULTI until its end, one connection has to see every command. */
export class Hold {
  isHeld = false;

  /** Notes a command that the application sends, by its name in lower case. */
  note(command: string): void {
    if (command === 'watch' || command === 'multi') this.isHeld = true;
    else if (ENDS_HOLD.has(command)) this.isHeld = false;
  }
}

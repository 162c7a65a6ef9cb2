import type { Endpoint } from '../../src/endpoint/endpoint.js';
import type { ResolveError } from '../../src/errors.js';
import type { ResolverListener } from '../../src/resolver/resolver.js';

/** Records a resolver's output: sets as sorted keys, failures as `fail <message>`, `fresh`. */
export class RecordingListener implements ResolverListener {
  readonly events: string[] = [];
  readonly errors: ResolveError[] = [];
  endpoints: readonly Endpoint[] | undefined;

  /** Why the last set is empty. */
  reason: string | undefined;

  update(endpoints: readonly Endpoint[], reason?: string): void {
    this.endpoints = endpoints;
    this.reason = reason;
    this.events.push(endpoints.map((endpoint) => endpoint.key).join(' ') || '∅');
  }

  fail(error: ResolveError): void {
    this.errors.push(error);
    this.events.push(`fail ${error.message}`);
  }

  fresh(): void {
    this.events.push('fresh');
  }

  /** The last set by key; undefined before the first. */
  get keys(): string | undefined {
    return this.endpoints?.map((endpoint) => endpoint.key).join(' ');
  }
}

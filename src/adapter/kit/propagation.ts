import type { CallContext, ServedRequest } from '../../propagation/call-context.js';
import { isPriority, type Priority } from '../../propagation/priority.js';
import { deadlineHeader, headerOption, priorityHeader } from '../../propagation/propagated.js';
import { checkFunction, checkKeys } from '../../runtime/check.js';
import { checkedOption, type OptionTable, optionTable } from '../../runtime/options.js';

/**
 * Which facts about a call its request carries to the server: its deadline and its priority. Only endpoints of the Service get them, never
 * other hosts.
 */
export interface PropagateOptions {
  /**
   * Finds the request that the process is serving while it makes a call. The call then gets no more time than that request has left, and
   * its priority unless the call has one of its own. Pass `createBackend({ context: true }).context`, or an object of your own with a
   * method `current()`. @defaultValue none: calls have only deadlines and priorities of their own
   */
  readonly context?: CallContext | undefined;
  /**
   * The header that says how long the caller will wait, in ms; false = the server is not told. gRPC calls send `grpc-timeout` instead.
   * @defaultValue 'x-envoy-expected-rq-timeout-ms'
   */
  readonly deadlineHeader?: string | false | undefined;
  /**
   * The header, or gRPC metadata key, that carries the priority of a call whose priority is not `default`; false = the server is not told.
   * @defaultValue 'x-request-priority'
   */
  readonly priorityHeader?: string | false | undefined;
}

type PropagateSettings = { readonly [Name in keyof PropagateOptions]-?: Exclude<PropagateOptions[Name], false> };

export const propagateTable: OptionTable<PropagateSettings> = optionTable('propagate', {
  context: checkedOption<CallContext | undefined>(undefined, (name, value) => {
    checkFunction(`${name}.current`, (value as CallContext | null)?.current);
    return value as CallContext;
  }),
  deadlineHeader: headerOption(deadlineHeader),
  priorityHeader: headerOption(priorityHeader),
});

/** The checked options of `PropagateOptions`, in the form that a call reads. */
export class Propagation {
  /** The lower-case name of the header that carries the deadline; undefined = deadlines are not passed on. */
  readonly deadlineHeader: string | undefined;
  /** The lower-case name of the header that carries the priority; undefined = priorities are not passed on. */
  readonly priorityHeader: string | undefined;
  /** Returns the request that is being served. If this function of the application throws, the call fails with its error. */
  readonly context: CallContext | undefined;

  /** Throws EVENKEEL_OPTION for invalid options. @param known The option names that the adapter supports. */
  constructor(
    options: PropagateOptions | undefined,
    known: readonly (keyof PropagateOptions)[] = propagateTable.names,
  ) {
    checkKeys('propagate', options ?? {}, known);
    const settings = propagateTable.resolveOwn(options ?? {});
    this.deadlineHeader = settings.deadlineHeader;
    this.priorityHeader = settings.priorityHeader;
    this.context = settings.context;
  }
}

/** How much time the request being served has left, in ms, above 0; undefined = the request has no deadline. */
export function remainingOf(served: ServedRequest): number | undefined {
  const remainingMs = served.remainingMs;
  // An application's own context may return an invalid number, which must not end calls.
  if (typeof remainingMs !== 'number' || Number.isNaN(remainingMs) || remainingMs === Number.POSITIVE_INFINITY)
    return undefined;
  // A served request without any time left gives its calls 1 ms, so that they end at once; 0 would mean no limit.
  return Math.max(1, remainingMs);
}

/** The priority of the request that is being served; undefined if it has none. */
export function inheritedPriority(served: ServedRequest): Priority | undefined {
  const priority = served.priority;
  return isPriority(priority) ? priority : undefined;
}

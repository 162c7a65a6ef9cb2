import type { CallContext, ServedRequest } from '../../propagation/call-context.js';
import { isPriority, type Priority } from '../../propagation/priority.js';
import { deadlineHeader, headerOption, priorityHeader } from '../../propagation/propagated.js';
import { checkFunction, checkKeys } from '../../runtime/check.js';
import { checkedOption, type OptionTable, optionTable } from '../../runtime/options.js';

/** What goes along with a call: its deadline, and its priority. Only to endpoints of the Service, never to other hosts. */
export interface PropagateOptions {
  /**
   * The request that is being served while a call is made: calls get no more time than is left of it, and its priority unless
   * they have one. `createBackend({ context: true }).context` is one; so is an object of your own with `current()`. @defaultValue
   * none: calls have only deadlines of their own
   */
  readonly context?: CallContext | undefined;
  /**
   * The header that says how long the caller will wait, in ms; false = it is not said. gRPC has `grpc-timeout` for it.
   * @defaultValue 'x-envoy-expected-rq-timeout-ms'
   */
  readonly deadlineHeader?: string | false | undefined;
  /**
   * The header, or gRPC metadata, that says the priority of a call that is not `default`; false = it is not said.
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

/** `PropagateOptions`, complete and checked. */
export class Propagation {
  /** The lower-case name of the header with the deadline; undefined = deadlines are not passed on. */
  readonly deadlineHeader: string | undefined;
  /** The lower-case name of the header with the priority; undefined = priorities are not passed on. */
  readonly priorityHeader: string | undefined;
  /** Returns which request is being served. If the application's own context throws, the call fails with that error. */
  readonly context: CallContext | undefined;

  /** Throws EVENKEEL_OPTION. */
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

/** How much is left of the time of the request that is being served, in ms, above 0; undefined = it has no deadline. */
export function remainingOf(served: ServedRequest): number | undefined {
  const remainingMs = served.remainingMs;
  // An invalid value from an application's own context must not end calls.
  if (typeof remainingMs !== 'number' || Number.isNaN(remainingMs) || remainingMs === Number.POSITIVE_INFINITY)
    return undefined;
  // If no time is left, the call ends at once; it must not run without a limit.
  return Math.max(1, remainingMs);
}

/** The priority of the request that is being served, if it has one. */
export function inheritedPriority(served: ServedRequest): Priority | undefined {
  const priority = served.priority;
  return isPriority(priority) ? priority : undefined;
}

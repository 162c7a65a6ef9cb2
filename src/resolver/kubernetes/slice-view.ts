import { hostname } from 'node:os';
import type { Endpoint } from '../../endpoint/endpoint.js';
import { type AllowAddresses, describeRefused, type UnsafeAddressClass } from '../../endpoint/unsafe-address.js';
import { ResolveError } from '../../errors.js';
import { notify } from '../../observe/observer.js';
import { type AddressFamily, onlyHostFamily } from '../host-families.js';
import { Announcer } from '../resolved.js';
import type { Resolution, ResolverContext, ResolverListener } from '../resolver.js';
import { WrongTarget } from '../wrong-target.js';
import { ServiceRules } from './service-rules.js';
import type { EndpointSlice, SliceMember } from './slices/endpoint-slice.js';
import { type ChosenPort, PublishedSet } from './slices/published-set.js';
import { portNames, type ServiceFacts } from './slices/service-ports.js';
import { absentService, type PortChoice, portOf } from './watch/service-object.js';
import { joinWatch, type Subscription, type WatchSubject, type WatchSubscriber } from './watch/shared-watch.js';

/** What one resolver takes from a Service's slices: which port, which address family, and so on. */
export interface ViewOptions {
  readonly subject: WatchSubject;
  /** The Service's name for messages, such as `shop/orders`. */
  readonly subjectName: string;
  readonly port: string | number | undefined;
  readonly podPort: number | undefined;
  /** The zone and the node in which this process runs; undefined if that is unknown. */
  readonly place: { readonly zone: string | undefined; readonly nodeName: string | undefined };
  readonly family: AddressFamily | undefined;
  readonly allowAddresses: AllowAddresses;
  readonly maxEndpoints: number;
  /** Called when the number of the Service's slices is known, and when it changes. */
  readonly onSlices: (count: number) => void;
}

/**
 * Turns the slices of a Service into updates for one listener: chooses address family and port, merges the slices, and limits how often
 * the set is published.
 */
export class SliceView implements Resolution, WatchSubscriber {
  readonly #options: ViewOptions;
  readonly #announcer: Announcer;
  readonly #context: ResolverContext;
  readonly #subscription: Subscription;
  readonly #set: PublishedSet;
  /** The only address family that this host can use; undefined if it has both, or if that is unknown. */
  readonly #hostFamily: AddressFamily | undefined = onlyHostFamily();
  readonly #rules: ServiceRules;
  /** What the Service said when the set was last published: rules that it sets for its clients. */
  #facts: ServiceFacts | undefined;
  /** All endpoints of the last publication, and those of them that this client may call; undefined before the first. */
  #all: readonly Endpoint[] | undefined;
  #endpoints: readonly Endpoint[] | undefined;
  // Why the set may be outdated or is unknown, by what is wrong: the rules of the Service, the port, the Service itself, the set's size.
  #ruleFailure: ResolveError | undefined;
  /** Why no endpoint has the port that is used, in words; undefined if some may have it. */
  #emptyBecause: string | undefined;
  /** The name of the port that was chosen last and was certain. */
  #port: string | undefined;
  /** The address family and the port that the set was last made for. */
  #choice: string | undefined;
  #changed = new Set<string>();
  #settling = false;
  #sliceCount: number | undefined;
  #portFailure: ResolveError | undefined;
  #missing: ResolveError | undefined;
  #sizeFailure: ResolveError | undefined;
  readonly #warned = new Set<string>();
  #closed = false;

  constructor(options: ViewOptions, listener: ResolverListener, context: ResolverContext) {
    this.#options = options;
    this.#announcer = new Announcer(listener);
    this.#context = context;
    const { clock, rng } = context;
    this.#rules = new ServiceRules(options.subjectName, { ...options.place, name: hostname() });
    this.#set = new PublishedSet(clock, (endpoints) => this.#publish(endpoints));
    this.#subscription = joinWatch(options.subject, clock, rng, this);
    // Another resolver's watch of the same Service may have got an answer already.
    this.changed(new Set(this.#subscription.slices.names()));
  }

  /**
   * A connection to an endpoint failed, so the set may be outdated: drops endpoints that are no longer in any slice, and makes a watch
   * that pauses continue sooner.
   */
  refresh(failingSinceMs?: number, reachesNone?: boolean): void {
    if (this.#closed) return;
    this.#set.dropVanished();
    this.#subscription.hurry(failingSinceMs, reachesNone);
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#announcer.close();
    this.#set.close();
    this.#subscription.close();
  }

  changed(names: ReadonlySet<string>): void {
    for (const name of names) this.#changed.add(name);
    // All events that arrive in one turn of the event loop are handled together, at its end.
    if (this.#settling || this.#closed) return;
    this.#settling = true;
    this.#context.clock.defer(() => {
      this.#settling = false;
      if (!this.#closed) this.#settle();
    });
  }

  warned(message: string, error?: unknown): void {
    if (!this.#closed) notify(this.#context.observer, 'warned', { message, error });
  }

  #settle(): void {
    if (this.#subscription.synced) {
      const { slices } = this.#subscription;
      if (this.#sliceCount !== slices.size) {
        this.#sliceCount = slices.size;
        this.#options.onSlices(slices.size);
        if (this.#closed) return;
      }
      this.#subscription.service.show(portNames(slices.values()));
      this.#findService();
      if (this.#knowRules()) this.#merge();
    }
    this.#say();
  }

  /** Finds out whether there seems to be no such Service. It has no slices then, so no event announces when it appears. */
  #findService(): void {
    const { slices, service } = this.#subscription;
    this.#missing = undefined;
    if (slices.size > 0) return;
    service.want();
    this.#missing = absentService(this.#options.subjectName, service.known);
    if (this.#missing !== undefined) service.again();
  }

  /**
   * Reads what the Service says about who may call which endpoint. If that is unknown, endpoints are used as if there were no rule. Returns
   * whether the rules can be followed.
   */
  #knowRules(): boolean {
    const { service, slices } = this.#subscription;
    if (this.#options.place.nodeName !== undefined) {
      // Whoever set NODE_NAME wants them followed. Elsewhere the object is read only where a port number needs it.
      service.want();
      const { isCurrent, isOverdue } = service.known;
      if (!this.#set.started && !isCurrent && !isOverdue) return false;
    }
    const { known } = service;
    // A Service without slices was deleted: what it said holds for the endpoints that stay, and until the new one says something.
    const holds = slices.size === 0 || !known.isCurrent;
    const facts = known.facts ?? (holds ? this.#facts : undefined);
    this.#ruleFailure = this.#rules.failure(facts);
    if (this.#ruleFailure !== undefined) return false;
    const before = this.#facts;
    this.#facts = facts;
    if (this.#all !== undefined && !sameRules(before, facts)) this.#publish(this.#all);
    return true;
  }

  /** Chooses the port to use, by its name or as a number of the pods. */
  #choosePort(): PortChoice {
    const { port, subjectName } = this.#options;
    const { service } = this.#subscription;
    const slices = [...this.#subscription.slices.values()];
    const choice = portOf({ port, subject: subjectName, last: this.#port }, slices, service.known);
    if (choice.isOpen) service.want();
    if (choice.error !== undefined) service.again();
    if (choice.isCertain) this.#port = choice.name;
    this.#portFailure = choice.error;
    this.#emptyBecause = choice.emptyBecause;
    return choice;
  }

  /**
   * The name of the port that was used, if the Service no longer has it: no slice lists it any longer, or will. To keep the last set would
   * mean to go on dialing addresses that other pods may get one day.
   */
  #lostPort({ error }: PortChoice): string | undefined {
    return error instanceof WrongTarget && this.#set.started ? this.#port : undefined;
  }

  /** Passes the slices that changed on to the set, once it is known which port they are about. */
  #merge(): void {
    const { slices } = this.#subscription;
    const { family: wanted } = this.#options;
    const chosen = this.#options.podPort === undefined ? this.#choosePort() : undefined;
    const name = chosen === undefined ? '' : (chosen.name ?? this.#lostPort(chosen));
    if (name === undefined) return;
    const podPort = this.#options.podPort ?? chosen?.podPort;
    const preferred = wanted ?? this.#hostFamily ?? 'IPv4';
    const families: readonly AddressFamily[] = wanted === undefined ? [preferred, otherFamily(preferred)] : [wanted];
    const only = this.#onlyFamily(slices.values());
    const choice = JSON.stringify([only, name, podPort]);
    if (this.#choice !== choice) {
      this.#choice = choice;
      const ports = (slice: EndpointSlice): readonly ChosenPort[] => portsOf(slice, name, podPort);
      this.#set.choose({ families, only, ports, accepts: (member) => this.#accepts(member) });
    }
    for (const changed of this.#changed) {
      const slice = slices.get(changed);
      this.#set.put(changed, slice);
      if (slice !== undefined) this.#inspect(slice);
    }
    this.#changed = new Set();
    this.#warnIfPortUnknown(name);
    this.#set.settle();
  }

  /**
   * On a host with addresses of one family alone, the family in which pods are taken that may have two addresses: the host's, if the
   * Service has a slice with it; otherwise the other one.
   */
  #onlyFamily(slices: Iterable<EndpointSlice>): AddressFamily | undefined {
    const { family } = this.#options;
    const mine = this.#hostFamily;
    if (family !== undefined || mine === undefined) return family;
    return hasFamily(slices, mine) ? mine : otherFamily(mine);
  }

  /**
   * Warns if the endpoints only have addresses of a family that the host has no address of. They are dialed all the same, because the
   * network may translate between IPv4 and IPv6.
   */
  #warnIfFamilyUnreachable(endpoints: readonly Endpoint[]): void {
    const { family: wanted, subjectName } = this.#options;
    if (wanted !== undefined || this.#hostFamily === undefined || this.#warned.has('family')) return;
    const other = otherFamily(this.#hostFamily);
    const isOther = ({ address }: Endpoint): boolean => address.includes(':') === (other === 'IPv6');
    if (endpoints.length === 0 || !endpoints.every(isOther)) return;
    this.#warned.add('family');
    this.warned(`${subjectName} has ${other} addresses alone, and this host has none of that family`);
  }

  #accepts({ unsafe }: SliceMember): boolean {
    return unsafe === undefined || this.#options.allowAddresses.includes(unsafe);
  }

  /** Warns about entries of a slice that are left out, once for each reason. */
  #inspect(slice: EndpointSlice): void {
    const { subjectName } = this.#options;
    const refused: { item: SliceMember; address: string; class: UnsafeAddressClass }[] = [];
    for (const member of slice.members) {
      if (member.unsafe === undefined || this.#accepts(member)) continue;
      if (!this.#warned.has(member.unsafe))
        refused.push({ item: member, address: member.address, class: member.unsafe });
    }
    for (const { class: unsafe } of refused) this.#warned.add(unsafe);
    if (refused.length > 0) this.warned(describeRefused(`the EndpointSlice ${slice.name} of ${subjectName}`, refused));
    const [malformed] = slice.malformed;
    if (malformed !== undefined && !this.#warned.has('malformed')) {
      this.#warned.add('malformed');
      const text = JSON.stringify(malformed.slice(0, 80));
      this.warned(
        `the EndpointSlice ${slice.name} of ${subjectName} has ${text} for an ${slice.family} address: left out`,
      );
    }
  }

  /** Warns if no slice has a port with the name in the options: that is probably a typing error. */
  #warnIfPortUnknown(name: string): void {
    const { port, subjectName } = this.#options;
    if (typeof port !== 'string' || this.#warned.has('port')) return;
    const names = portNames(this.#subscription.slices.values());
    if (names.length === 0 || names.includes(name)) return;
    this.#warned.add('port');
    const list = names.map((known) => JSON.stringify(known)).join(', ');
    this.warned(`no EndpointSlice of ${subjectName} has a port named ${JSON.stringify(name)}; there is ${list}`);
  }

  #publish(endpoints: readonly Endpoint[]): void {
    const { maxEndpoints, subjectName } = this.#options;
    if (endpoints.length > maxEndpoints) {
      const message = `${subjectName} has ${endpoints.length} endpoints, more than maxEndpoints (${maxEndpoints}); the last set stays`;
      this.#sizeFailure = new ResolveError(message, { permanent: true });
    } else {
      this.#sizeFailure = undefined;
      this.#warnIfFamilyUnreachable(endpoints);
      this.#all = endpoints;
      this.#endpoints = this.#rules.apply(this.#facts, endpoints);
    }
    this.#say();
  }

  /** Says what is known now. */
  #say(): void {
    const { failure } = this.#subscription;
    const error = failure ?? this.#missing ?? this.#ruleFailure ?? this.#portFailure ?? this.#sizeFailure;
    this.#announcer.say({ endpoints: this.#endpoints, emptyBecause: this.#emptyBecause, error });
  }
}

function sameRules(a: ServiceFacts | undefined, b: ServiceFacts | undefined): boolean {
  return (
    a?.internalTrafficPolicy === b?.internalTrafficPolicy &&
    a?.sessionAffinity === b?.sessionAffinity &&
    a?.headless === b?.headless
  );
}

/** How many different numbers are used for ports of the same name in one slice. */
const MAX_NUMBERS = 8;

/** The ports to use for a slice's members. With `podPort` it is that number, and the slice need not list it. */
function portsOf(slice: EndpointSlice, name: string, podPort: number | undefined): readonly ChosenPort[] {
  if (podPort !== undefined) return [slice.ports.find(({ port }) => port === podPort) ?? { port: podPort }];
  const chosen = new Map<number, ChosenPort>();
  for (const port of slice.ports) {
    if (port.name === name && !chosen.has(port.port)) chosen.set(port.port, port);
    // Port names are unique in a valid slice. The limit exists because every further number adds an endpoint for each member.
    if (chosen.size === MAX_NUMBERS) break;
  }
  return [...chosen.values()];
}

function otherFamily(family: AddressFamily): AddressFamily {
  return family === 'IPv4' ? 'IPv6' : 'IPv4';
}

function hasFamily(slices: Iterable<EndpointSlice>, family: AddressFamily): boolean {
  for (const slice of slices) if (slice.family === family) return true;
  return false;
}

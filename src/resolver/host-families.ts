import { networkInterfaces } from 'node:os';

/** A family of IP addresses, as the `addressType` of an EndpointSlice. */
export type AddressFamily = 'IPv4' | 'IPv6';

/** An address of a network interface, as `os.networkInterfaces()` lists it. */
export interface InterfaceAddress {
  readonly address: string;
  readonly family: AddressFamily;
  /** Whether the address is of a loopback interface. */
  readonly internal: boolean;
}

/**
 * The families in which this host can reach others: those of which an interface has an address that is neither loopback nor
 * link-local. Every host has link-local IPv6 addresses, and some IPv6-only pods have a link-local IPv4 one (Amazon EKS, for traffic
 * that leaves the cluster). Empty where only loopback is up.
 */
export function hostFamilies(addresses: readonly InterfaceAddress[] = listed()): ReadonlySet<AddressFamily> {
  const families = new Set<AddressFamily>();
  for (const { address, family, internal } of addresses) {
    if (!internal && !/^(169\.254\.|fe[89ab][0-9a-f]:)/i.test(address)) families.add(family);
  }
  return families;
}

/** The only family this host has, or undefined if it has both or none. */
export function onlyHostFamily(families: ReadonlySet<AddressFamily> = hostFamilies()): AddressFamily | undefined {
  const [first] = families;
  return families.size === 1 ? first : undefined;
}

/**
 * The families that DNS is queried for, in order: the second where a name has no address of the first. DNS does not say which addresses are
 * of one pod, so they are never mixed.
 *
 * @param family The only family to query, if the options name one.
 */
export function lookupFamilies(
  family?: 4 | 6,
  hostFamily: AddressFamily | undefined = onlyHostFamily(),
): readonly (4 | 6)[] {
  if (family !== undefined) return [family];
  return hostFamily === 'IPv6' ? [6, 4] : [4, 6];
}

function listed(): InterfaceAddress[] {
  try {
    return Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  } catch {
    // If the system does not let a process see its interfaces, nothing is known about them.
    return [];
  }
}

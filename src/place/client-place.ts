/** The place of one client among all clients of a Service, for dividing its endpoints. */
export interface ClientPlace {
  /** The number of this client, from 0 to below `count`. */
  readonly index: number;
  readonly count: number;
}

/** Finds a client's place among clients of one kind: pods, processes, workers of a cluster or threads. */
export interface PlaceSource {
  /** The place of this client; undefined while it is not known. */
  readonly place: ClientPlace | undefined;
  close(): void;
}

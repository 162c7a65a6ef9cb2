/** The place of a client among all. */
export interface ClientPlace {
  /** From 0 to below `count`. */
  readonly index: number;
  readonly count: number;
}

/** One reason why there are several clients. */
export interface PlaceSource {
  /** Undefined while it is not known. */
  readonly place: ClientPlace | undefined;
  close(): void;
}

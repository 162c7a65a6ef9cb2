/** What an attempt reports to its policy. */
export interface AttemptOwner {
  /** A pod reported how busy it is. */
  heardReport(): void;
  /** A call ended: a waiting one may start. */
  capacityFreed(): void;
  /** A call that waited for the limit has its place, or is turned away. */
  placed(): void;
}

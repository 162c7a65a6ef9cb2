// @ts-check
/** Names of the pods a balancer avoids because of how they behaved. @param {{ snapshot(): { endpoints: readonly { name?: string | undefined, suspect: boolean }[] } }} balancer */
export const podsSetAside = (balancer) =>
  balancer
    .snapshot()
    .endpoints.filter(({ suspect }) => suspect)
    .map(({ name }) => name ?? '');

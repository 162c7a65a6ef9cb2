// @ts-check
/** Names of the pods a balancer leaves out because of what it saw of them. @param {{ snapshot(): { endpoints: readonly { name?: string | undefined, suspect: boolean }[] } }} balancer */
export const podsSetAside = (balancer) =>
  balancer
    .snapshot()
    .endpoints.filter(({ suspect }) => suspect)
    .map(({ name }) => name ?? '');

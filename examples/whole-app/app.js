// @ts-check
/** A typical app: plain `fetch`, two Services and a host outside the cluster. It knows nothing about evenkeel. */

/** What one page of a shop needs. @param {number} article @param {string} bank where exchange rates come from */
export async function page(article, bank) {
  const [order, stock, rate] = await Promise.all([
    get(`http://orders.shop/v1/orders/${article}`),
    get(`http://stock.shop.svc.cluster.local:8080/v1/stock/${article}`),
    get(`${bank}/rates/EUR`),
  ]);
  return { order, stock, rate };
}

/** @param {string} url @returns {Promise<{ pod: string, host: string, path: string }>} */
async function get(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} answered ${response.status}`);
  return /** @type {any} */ (await response.json());
}

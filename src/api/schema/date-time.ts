// The two readings of RFC 3339 that kube-apiserver has: the lenient one of the schema format
// `date-time`, and the strict one of timestamps in metadata.

const timeOfDay = /^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$/;
const date = /^([0-9]{4})-([0-9]{2})-([0-9]{2})$/;

function daysIn(year: number, month: number): number {
  return new Date(Date.UTC(2000 + (year % 400), month, 0)).getUTCDate();
}

function isDate(text: string): boolean {
  const match = date.exec(text);
  if (match === null) return false;
  const [year, month, day] = [Number(match[1]), Number(match[2]), Number(match[3])];
  return month >= 1 && month <= 12 && day >= 1 && day <= daysIn(year, month);
}

/** strfmt.IsDateTime of kube-openapi: RFC 3339 section 5.6, in either case. */
export function validateDateTime(text: string): boolean {
  const [day, time] = text.toLowerCase().split('t', 2);
  if (day === undefined || time === undefined || !isDate(day)) return false;
  const match = timeOfDay.exec(time);
  if (match === null) return false;
  return (match[1] ?? '') <= '23' && (match[2] ?? '') <= '59' && (match[3] ?? '') <= '59';
}

const strict =
  /^([0-9]{4}-[0-9]{2}-[0-9]{2})T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.,][0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$/;

/** The moment in milliseconds, or undefined: what Go's time.Parse(time.RFC3339, text) accepts. */
export function parseTimestamp(text: string): number | undefined {
  const match = strict.exec(text);
  if (match === null || !isDate(match[1] ?? '')) return undefined;
  const moment = Date.parse(text.replace(',', '.'));
  return Number.isNaN(moment) ? undefined : moment;
}

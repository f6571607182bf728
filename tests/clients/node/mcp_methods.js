// Every tool of the vendor's MCP server `resend-mcp`, once. What there is is what its `tools/list` says, without
// inboxes, connections to the vendor's editor and claims of domains. Started by ../run, which sets RESEND_BASE_URL,
// RESEND_API_KEY and METHODS, the file that takes what came of each: null, or what went wrong.

import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { grant } from './grant.js';

const ELSEWHERE = /inbox|editor|tiptap|^compose-|domain-claim/;
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/;
const program = createRequire(import.meta.url).resolve('resend-mcp').replace(/server\.js$/, 'index.js');

const client = new Client({ name: 'posthorn-client-test', version: '1' });
await client.connect(new StdioClientTransport({ command: process.execPath, args: [program], env: process.env, stderr: 'ignore' }));
const { tools } = await client.listTools();
const outcome = Object.fromEntries(
  tools.filter(({ name }) => !ELSEWHERE.test(name)).map(({ name }) => [name, 'nobody calls it here']),
);

const nobody = randomUUID();
const somebody = () => `ada+${randomUUID()}@example.com`;
const tomorrow = () => new Date(Date.now() + 86_400_000).toISOString();

// Calls a tool; what it returns is the first id in what it said, or nobody's.
async function call(name, args = {}) {
  if (!(name in outcome)) throw new Error(`there is no tool ${name}`);
  let text;
  let problem = null;
  try {
    const result = await client.callTool({ name, arguments: args });
    text = result.content.map((block) => block.text ?? '').join('\n');
    if (result.isError) problem = text;
  } catch (error) {
    problem = error.message;
  }
  if (outcome[name] !== null) outcome[name] = problem?.slice(0, 300) ?? null;
  return (problem === null && text?.match(UUID)?.[0]) || nobody;
}

async function people() {
  const segmentId = await call('create-segment', { name: 'Everybody' });
  await call('list-segments');
  await call('get-segment', { id: segmentId });
  await call('update-segment', { id: segmentId, name: 'All' });
  const email = somebody();
  const id = await call('create-contact', { email, firstName: 'Ada' });
  await call('list-contacts');
  await call('get-contact', { email });
  await call('update-contact', { email, lastName: 'Lovelace' });
  await call('add-contact-to-segment', { email, segmentId });
  await call('list-contact-segments', { email });
  const topic = await call('create-topic', { name: 'News', defaultSubscription: 'opt_in' });
  await call('list-topics');
  await call('get-topic', { id: topic });
  await call('update-topic', { id: topic, name: 'Product news' });
  await call('update-contact-topics', { email, topics: [{ id: topic, subscription: 'opt_out' }] });
  await call('list-contact-topics', { email });
  const property = await call('create-contact-property', { key: `plan_${Date.now()}`, type: 'string' });
  await call('list-contact-properties');
  await call('get-contact-property', { contactPropertyId: property });
  await call('update-contact-property', { contactPropertyId: property, fallbackValue: 'free' });
  await call('remove-contact-property', { contactPropertyId: property });
  const started = await call('create-contact-import', { content: `email\n${somebody()}\n` });
  await call('list-contact-imports');
  await call('get-contact-import', { id: started });
  await broadcasts(segmentId);
  await call('remove-contact-from-segment', { contactId: id, segmentId });
  await call('remove-contact', { email });
  await call('remove-topic', { id: topic });
  await call('remove-segment', { id: segmentId });
}

async function broadcasts(segmentId) {
  const draft = { name: 'News', segmentId, subject: 'News', html: '<p>News.</p>', text: 'News.', from: 'Ada <ada@example.com>' };
  const broadcastId = await call('create-broadcast', draft);
  await call('list-broadcasts');
  await call('get-broadcast', { broadcastId });
  await call('update-broadcast', { broadcastId, subject: 'Old news' });
  await call('remove-broadcast', { broadcastId: await call('duplicate-broadcast', { broadcastId }) });
  await call('send-broadcast', { broadcastId, scheduledAt: tomorrow() });
  await call('list-broadcast-recipients', { broadcastId, type: 'delivered' });
  await call('list-broadcast-clicked-links', { broadcastId });
  await call('cancel-broadcast', { broadcastId });
}

async function emails() {
  const mail = { from: 'Ada <ada@example.com>', to: ['delivered@resend.dev'], subject: 'Hello', text: 'Hello.' };
  const attachments = [{ filename: 'a.txt', content: Buffer.from('a').toString('base64') }];
  const emailId = await call('send-email', { ...mail, attachments });
  await call('list-emails');
  await call('get-email', { id: emailId });
  await call('share-email', { id: emailId });
  await call('get-sent-email-attachment', { emailId, id: await call('list-sent-email-attachments', { emailId }) });
  const later = await call('send-email', { ...mail, scheduledAt: tomorrow() });
  await call('update-email', { id: later, scheduledAt: new Date(Date.now() + 172_800_000).toISOString() });
  await call('cancel-email', { id: later });
  await call('send-batch-emails', { emails: [mail, mail] });
  await call('get-email-metrics', { dimensions: ['period'], metrics: ['sent'] });
  const received = await call('list-received-emails');
  await call('get-received-email', { id: received });
  const attached = await call('list-received-email-attachments', { emailId: received });
  await call('get-received-email-attachment', { emailId: received, id: attached });
}

async function templates() {
  const id = await call('create-template', { name: 'Welcome', html: '<p>Hello.</p>', subject: 'Hello' });
  await call('list-templates');
  await call('get-template', { id });
  await call('update-template', { id, subject: 'Welcome' });
  await call('publish-template', { id });
  await call('remove-template', { id: await call('duplicate-template', { id }) });
}

async function events() {
  const name = `user.created.${Date.now()}`;
  for (const args of [
    { action: 'create', name, schema: { plan: 'string' } },
    { action: 'list' },
    { action: 'get', identifier: name },
    { action: 'update', identifier: name, schema: { plan: 'string', seats: 'number' } },
  ]) {
    await call('manage-events', args);
  }
  const workflow = { steps: [{ key: 't', type: 'trigger', config: { eventName: name } }] };
  const id = await call('create-automation', { name: 'Welcome', status: 'enabled', workflow });
  await call('get-automation', { id });
  await call('send-event', { event: name, email: somebody(), payload: { plan: 'pro' } });
  await call('get-automation-runs', { automationId: id });
  await call('update-automation', { id, status: 'disabled' });
  await call('remove-automation', { id: await call('duplicate-automation', { id }) });
  await call('manage-events', { action: 'remove', identifier: name });
}

async function domainsAndKeys() {
  const id = await call('create-domain', { name: `mail-${Date.now()}.example.com` });
  await call('list-domains');
  await call('get-domain', { id });
  await call('update-domain', { id, tls: 'enforced' });
  await call('verify-domain', { id });
  await call('remove-domain', { id });
  const key = await call('create-api-key', { name: 'Another' });
  await call('list-api-keys');
  await call('update-api-key', { id: key, name: 'The other' });
  await call('remove-api-key', { id: key });
  await grant();
  await call('revoke-oauth-grant', { id: await call('list-oauth-grants', { limit: 1 }) });
  await call('get-log', { logId: await call('list-logs') });
}

async function suppressions() {
  const email = somebody();
  await call('add-suppression', { email });
  await call('list-suppressions');
  await call('get-suppression', { idOrEmail: email });
  await call('remove-suppression', { idOrEmail: email });
  await call('batch-add-suppressions', { emails: [email] });
  await call('batch-remove-suppressions', { emails: [email] });
}

async function webhooks() {
  const endpoint = `${process.env.RESEND_BASE_URL}/healthz`;
  const webhookId = await call('create-webhook', { endpoint, events: ['contact.created'] });
  await call('list-webhooks');
  await call('get-webhook', { webhookId });
  await call('update-webhook', { webhookId, events: ['contact.created', 'contact.deleted'] });
  await call('create-contact', { email: somebody() });
  let eventId = nobody;
  for (let tries = 0; eventId === nobody && tries < 20; tries++) {
    if (tries > 0) await new Promise((resolve) => setTimeout(resolve, 250));
    eventId = await call('list-webhook-events', { webhookId });
  }
  await call('get-webhook-event', { webhookId, eventId });
  await call('list-webhook-event-attempts', { webhookId, eventId });
  await call('replay-webhook-event', { webhookId, eventId });
  await call('rotate-webhook-signing-secret', { webhookId });
  await call('remove-webhook', { webhookId });
}

for (const part of [people, emails, templates, events, domainsAndKeys, suppressions, webhooks]) await part();
await client.close();
writeFileSync(process.env.METHODS, JSON.stringify(outcome));

// Every address is relative to this page, so that it works under any path a proxy puts in front of it.
// validatorUrl is switched off: left alone, Swagger UI sends the document's address to a validator on the internet.
window.ui = SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  displayRequestDuration: true,
  tryItOutEnabled: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  defaultModelExpandDepth: 0,
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
});
